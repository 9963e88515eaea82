//go:build !unix

package testdb

import "os/exec"

// Nobody is root here.
func giveAway(string) error { return nil }

func unprivileged(*exec.Cmd) {}
