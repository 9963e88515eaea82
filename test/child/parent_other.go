//go:build !linux

package child

import "os/exec"

// Elsewhere a child ends when its stdin does.
func dieWithParent(*exec.Cmd) {}
