package watch

// Notifier is the system's file notification. fsnotify is the one in use; a
// recursive one (FSEvents) fits the same interface.
//
// Events and Errors are read by one goroutine. After Close both channels may
// be closed or stay silent.
type Notifier interface {
	// Add starts notification for a directory: its entries, or, when Recursive,
	// everything below. Errors wrapping ENOSPC, EMFILE, ENFILE or ENOMEM mean
	// that the system has no room for more.
	Add(dir string) error
	// Remove ends it. Removing what is not watched is not an error that matters.
	Remove(dir string) error
	// Recursive says that watching the root is enough.
	Recursive() bool
	Events() <-chan Event
	// Errors carries ErrOverflow when events were lost; anything else is
	// treated the same way and shown.
	Errors() <-chan error
	Close() error
}

// Event is one notification.
type Event struct {
	Path string // absolute
	Op   Op
}

// Op says what a notification is about.
type Op int

// Operations. They never leave the process.
const (
	OpChanged Op = iota // written, or its attributes changed
	OpCreated           // created, or moved here
	OpGone              // removed, or moved away
)
