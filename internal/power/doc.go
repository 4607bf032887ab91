// Package power knows what the machine lives on and when it slept.
//
// Any part from layer 3 up may import it; it imports the nouns alone. Reading
// the system is a few lines for each one, in files of their own; what is made
// of it is decided by functions that touch nothing.
//
// Guarantees: Clock.Woke never waits, and knows of a sleep as soon as it is
// asked after it, not when a notification or the next look comes; a machine
// whose power source is not known counts as one on mains.
package power
