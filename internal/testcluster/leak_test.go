package testcluster

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// requireNoLeaks fails the test if goroutines of this package outlive its
// cleanup. Bubbles check the same by themselves.
func requireNoLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var left []string
		// What was told to end may take a moment to do so.
		for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
			if left = ownGoroutines(); len(left) == 0 {
				return
			}
			time.Sleep(wait)
		}
		t.Errorf("%d goroutines were left:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// ownGoroutines returns the stacks of the goroutines that this package or the
// embedded server started.
func ownGoroutines() (own []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		isTest := strings.Contains(stack, "testing.tRunner") || strings.Contains(stack, "testing.(*M)")
		if !isTest && (strings.Contains(stack, "testcluster.") || strings.Contains(stack, "miniredis")) {
			own = append(own, stack)
		}
	}
	return own
}
