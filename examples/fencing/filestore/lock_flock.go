//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"fmt"
	"os"
	"syscall"
)

// flock waits for an exclusive lock on a file, which is created if need be. The lock
// belongs to this opening of the file, so it excludes goroutines of this process too,
// and ends when the process does.
func flock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return f.Close, nil
		}
		if err != syscall.EINTR { //nolint:errorlint // A bare errno.
			_ = f.Close()
			return nil, fmt.Errorf("filestore: flock %s: %w", path, err)
		}
	}
}
