package testkit

import (
	"testing"
	"time"
)

// AwaitCalm waits until the machine has time for this process, for a test in which little happens otherwise: until short
// sleeps are hardly late for a while. Should it stay busy, the test goes on after 20 seconds all the same.
func AwaitCalm(t *testing.T) {
	t.Helper()
	const (
		nap   = time.Millisecond
		late  = 5 * time.Millisecond
		while = 100 // naps
	)
	calm := 0
	for end := time.Now().Add(20 * time.Second); calm < while && time.Now().Before(end); {
		before := time.Now()
		time.Sleep(nap)
		if calm++; time.Since(before) > nap+late {
			calm = 0
		}
	}
}
