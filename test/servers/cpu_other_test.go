//go:build !unix

package servers

import "time"

// processCPU is not measured here.
func processCPU() time.Duration { return 0 }
