//go:build !unix

package main

import "time"

// cpuTime returns 0: this system's way of asking is not implemented.
func cpuTime() time.Duration { return 0 }
