//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"fmt"
	"runtime"
)

// flock refuses: to write without the lock would be to check nothing.
func flock(string) (unlock func() error, err error) {
	return nil, fmt.Errorf("filestore: flock on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
