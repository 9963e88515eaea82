//go:build !linux

package testcluster

import "os/exec"

// dieWithParent does nothing where the system offers no such thing; there only
// Cluster.Close ends the servers.
func dieWithParent(*exec.Cmd) {}

// awaitFrozen trusts that a stop signal takes effect soon enough.
func (p *Process) awaitFrozen() error { return nil }
