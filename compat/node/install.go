// Package node has the clients of node-redlock that others run, and installs it: ../ has agent.js do what it is told,
// proof/peers sends course.js over its course. connect.js is what they have in common.
package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
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
	return install(Folder(), "npm", "ci", "--ignore-scripts", "--loglevel=error")
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

// install has a command install what the package-lock.json of a folder names, unless it is there.
// Several processes may do so at the same time, as scripts/matrix.sh has it: so it is made beside, and
// moved into place as a whole.
func install(folder string, command ...string) error {
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return err
	}
	modules := filepath.Join(folder, "node_modules")
	ready := func() bool {
		have, readErr := os.ReadFile(filepath.Join(modules, ".installed"))
		return readErr == nil && bytes.Equal(have, lock)
	}
	if ready() {
		return nil
	}
	beside, err := os.MkdirTemp(folder, "node_modules-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }()
	for _, name := range []string{".npmrc", "package.json", "package-lock.json"} {
		var text []byte
		if text, err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return err
		}
		if err = os.WriteFile(filepath.Join(beside, name), text, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = beside
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.300q", cmd, err, out)
	}
	fresh := filepath.Join(beside, "node_modules")
	if err = os.WriteFile(filepath.Join(fresh, ".installed"), lock, 0o600); err != nil {
		return err
	}
	if err = os.Rename(fresh, modules); err == nil || ready() {
		return nil
	}
	// What an older lock file has named is in the way.
	if err = os.RemoveAll(modules); err != nil {
		return err
	}
	if err = os.Rename(fresh, modules); err != nil && !ready() {
		return err
	}
	return nil
}
