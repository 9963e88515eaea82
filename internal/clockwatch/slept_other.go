//go:build !linux

package clockwatch

import "time"

// slept is unknown here. On Windows the monotonic clock counts sleep itself; elsewhere the wall clock has to do.
func slept() (time.Duration, bool) { return 0, false }
