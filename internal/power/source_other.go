//go:build !linux && !darwin

package power

import "errors"

func system() (Source, error) { return "", errors.ErrUnsupported }
