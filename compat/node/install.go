//go:build unix

// Package node has the clients of node-redlock that others run, and installs it: ../ has agent.js do what it is told,
// proof/peers sends course.js over its course. connect.js is what they have in common.
package node

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Folder is where this package and what it installs are.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Install puts in place what package-lock.json names, unless it is there. It fails where node or npm is missing.
var Install = sync.OnceValue(func() error {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	f, err := os.Open(filepath.Join(Folder(), "package-lock.json"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// Several processes may install at the same time, as scripts/matrix.sh has it.
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	lock, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	installed := filepath.Join(Folder(), "node_modules", ".installed")
	if have, readErr := os.ReadFile(installed); readErr == nil && bytes.Equal(have, lock) {
		return nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--loglevel=error")
	cmd.Dir = Folder()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300q", cmd, err, out)
	}
	return os.WriteFile(installed, lock, 0o600)
})

// Require skips a test where node-redlock cannot be run. Where CI=true it fails.
func Require(t *testing.T) {
	t.Helper()
	err := Install()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("node-redlock cannot be run here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
