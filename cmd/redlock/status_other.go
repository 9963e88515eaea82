//go:build !unix

package main

import "os"

// A status is how the program ends.
type status struct{ code int }

func (s status) exit() { os.Exit(s.code) }
