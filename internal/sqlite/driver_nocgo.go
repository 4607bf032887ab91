//go:build !cgo

package sqlite

import (
	"database/sql/driver"
	"errors"
)

func connect(string, []string) (driver.Conn, error) {
	return nil, errors.New("this build has no SQLite: build with CGO_ENABLED=1 and -tags sqlite_fts5")
}

func damaged(error) bool { return false }

func wordsDamaged(error) bool { return false }
