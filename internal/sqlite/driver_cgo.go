//go:build cgo

package sqlite

// The C files see the system's sqlite3.h and are linked with the driver's SQLite.
// The header of macOS marks sqlite3_auto_extension as deprecated, because Apple's
// own library lacks it; the driver's has it.

/*
#cgo CFLAGS: -std=gnu99 -O3 -Wall -Wno-deprecated-declarations
#include "native.h"
*/
import "C"

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// register hands the C side to SQLite once; sqlite3_auto_extension is global to the process.
var register = sync.OnceValue(func() error {
	if rc := C.ondol_register(); rc != C.SQLITE_OK {
		return fmt.Errorf("register tokenizer: result code %d", int(rc))
	}
	return nil
})

// connect opens one connection and runs the pragmas on it, in order.
func connect(dsn string, pragmas []string) (driver.Conn, error) {
	if err := register(); err != nil {
		return nil, err
	}
	d := &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		for _, p := range pragmas {
			if _, err := c.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("set %s: %w", p, err)
			}
		}
		return nil
	}}
	return d.Open(dsn)
}

// damaged reports whether err says that the file is no sound database.
func damaged(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// wordsDamaged reports whether err says that the full-text index is broken
// while the file as a whole need not be.
func wordsDamaged(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrCorruptVTab
}
