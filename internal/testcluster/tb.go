package testcluster

import (
	"errors"
	"os"
)

// TB is the part of testing.TB that the Run functions need. It keeps the
// testing package out of programs that aren't tests.
type TB interface {
	Helper()
	Cleanup(fn func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// RunEmbedded is [StartEmbedded] for a test, which ends the cluster as well.
func RunEmbedded(tb TB, n int) *Cluster {
	tb.Helper()
	c, err := StartEmbedded(n)
	return own(tb, c, err)
}

// RunBubble is [NewBubble] for a test inside a bubble, which ends the cluster
// as well.
func RunBubble(tb TB, n int) *Cluster {
	tb.Helper()
	c, err := NewBubble(n)
	return own(tb, c, err)
}

// RunServers is [StartServers] for a test, which ends the cluster as well. The
// test is skipped if there is no server to run, unless the environment
// variable CI is "true": there it fails, so that a missing server can't hide.
func RunServers(tb TB, n int, opts ...ServerOption) *Cluster {
	tb.Helper()
	c, err := StartServers(n, opts...)
	if errors.Is(err, ErrNoServer) && os.Getenv("CI") != "true" {
		tb.Skipf("%v", err)
	}
	return own(tb, c, err)
}

func own(tb TB, c *Cluster, err error) *Cluster {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return c
}
