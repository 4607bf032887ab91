//go:build !desktop

package frontend

import (
	"errors"
	"io/fs"
)

// Dist fails: this build has no page in it.
func Dist() (fs.FS, error) {
	return nil, errors.New("this build has no window: run make desktop")
}
