// Package filestore keeps a value in a file that holders of its lock write, and refuses
// the earlier ones. The fence is the file's first line, so that it changes together with
// the value and outlives every process.
//
// Each function holds an exclusive flock on a second file, path.lock, from the check
// to the end of the write. It is a second one since a write replaces the first, and a lock
// on a file that has been replaced excludes nobody. Do not delete it: then two
// processes could each lock a path.lock of their own. The flock keeps the processes of
// one host apart. Whether it does so between the hosts of a shared file system is up
// to its mount: NFS on Linux does, but not with nolock or local_lock. Without that, let one
// process write and check, as package httpservice does.
//
// Where there is no flock, such as on Windows, the error matches [errors.ErrUnsupported].
//
// Anybody may read the file at any time, and finds a whole one. Who deletes it makes it
// forget its fence.
package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ErrStale is matched by the error of a holder that comes after a later one. Its lock
// has ended, and it must give up.
var ErrStale = errors.New("filestore: a later holder has written")

// Write stores a value. It returns an error that matches ErrStale if a larger fence
// has been used for the file. It may be called concurrently; each call blocks a thread
// while others are at it.
//
// After another error the file has its old value or the new one. To call Write again
// with the same fence is safe.
func Write(path string, fence int64, value []byte) error {
	return update(path, fence, func([]byte) []byte { return value })
}

// Read returns the value for a holder that will write what it computes from it, and
// none if there is no file yet. It raises the fence, so that no earlier holder changes
// the value after it was read. Errors are those of Write.
func Read(path string, fence int64) (value []byte, err error) {
	err = update(path, fence, func(old []byte) []byte {
		value = old
		return old
	})
	return value, err
}

// update replaces the value. The fence is read again every time: another process may
// have written since.
func update(path string, fence int64, change func(old []byte) []byte) (err error) {
	if fence < 1 {
		return fmt.Errorf("filestore: fence %d: must be at least 1", fence)
	}
	unlock, err := flock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	seen, old, err := load(path)
	if err != nil {
		return err
	}
	if fence < seen {
		return fmt.Errorf("%w: fence %d is behind %d", ErrStale, fence, seen)
	}
	return save(path, fence, change(old))
}

// load reads the file. One that begins with no fence is an error, never a fence of 0.
func load(path string) (fence int64, value []byte, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	line, value, found := bytes.Cut(data, []byte("\n"))
	fence, err = strconv.ParseInt(string(line), 10, 64)
	if !found || err != nil || fence < 1 {
		return 0, nil, fmt.Errorf("filestore: %s: the first line is no fence", path)
	}
	return fence, value, nil
}

// save replaces the file, so that a crash leaves the old one or the new one. The
// temporary file always has the same name, as only one writer is here at a time: what
// a crash has left is overwritten.
func save(path string, fence int64, value []byte) error {
	temp := path + ".tmp"
	data := append(strconv.AppendInt(nil, fence, 10), '\n')
	if err := writeFile(temp, append(data, value...)); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	// The rename is on disk only when the folder is.
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return syncAndClose(folder)
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// Before the rename: otherwise a crash may leave the new name with no content.
	return errors.Join(err, syncAndClose(f))
}

// syncAndClose waits until f is on disk, and closes it.
func syncAndClose(f *os.File) error {
	return errors.Join(f.Sync(), f.Close())
}
