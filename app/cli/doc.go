// Package cli is the command line: it reads arguments, asks the running app
// over its control socket, and shows the answer to a person in English or
// Korean, or to a program as JSON.
//
// Only app imports it; serving and opening the window are handed in, so that
// nothing here builds a part of the app. Exit codes are the contract's: 0
// done, 1 failed, 2 usage, 3 no evidence found, 4 the app is not running.
// Standard output carries the answer alone; complaints go to standard error.
package cli
