//go:build !unix

package main

import "time"

// rusage returns 0: this system's way of asking is not implemented.
func rusage() time.Duration { return 0 }
