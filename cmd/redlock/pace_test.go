//go:build unix

package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Two extensions that fail can be made up for by a third, whatever the flags.
func TestLeeway(t *testing.T) {
	given := func(string) bool { return true }
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, nodeTimeout := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 5 * time.Second} {
			for _, killAfter := range []time.Duration{0, ttl / 8, ttl / 4, ttl / 3, ttl / 2} {
				f := &runFlags{wait: "0", ttl: ttl, killAfter: killAfter}
				require.NoError(t, f.complete(given, 0))
				limited := f.limitKillAfter(nodeTimeout)
				assert.Equal(t, limited, f.killAfter != killAfter)
				assert.LessOrEqual(t, f.killAfter, killAfter)
				if limited {
					assert.GreaterOrEqual(t, f.killAfter, ttl/4, "no more than needed")
				}
				answer := f.leeway() / triesOfLeeway // of the third one
				assert.GreaterOrEqual(t, answer, min(nodeTimeout, ttl*3/20), "ttl %v, node timeout %v, kill after %v", ttl, nodeTimeout, killAfter)
			}
		}
	}
	f := &runFlags{wait: "0", ttl: 10 * time.Second, killAfter: 6 * time.Second}
	require.ErrorContains(t, f.complete(given, 0), "--kill-after 6s: must be from 0 to half of the ttl, 5s")
	f = &runFlags{wait: "0", ttl: 10 * time.Second, killAfter: 5 * time.Second}
	require.NoError(t, f.complete(func(string) bool { return false }, 0))
	assert.Equal(t, 2500*time.Millisecond, f.killAfter, "the default follows a short ttl")
}

// far returns the addresses of the nodes behind a long way.
func far(t *testing.T, c *testcluster.Cluster, roundTrip time.Duration) string {
	t.Helper()
	var addrs []string
	for _, node := range c.Nodes {
		p := testcluster.NewProxy(func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", node.Addr())
		})
		t.Cleanup(p.Close)
		p.SetDelay(roundTrip/2, roundTrip/2)
		addr, err := p.Listen()
		require.NoError(t, err)
		addrs = append(addrs, addr)
	}
	return strings.Join(addrs, ",")
}

// With healthy nodes a command goes on, also if the ttl is short, the way long, and --kill-after as long as
// it may be. KeepAlive's first extension would be answered when SIGTERM is due.
func TestRunFarAway(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "run", "--nodes", far(t, c, 700*time.Millisecond), "--connect-timeout", "20s", "--node-timeout", "1500ms",
		"--ttl", "6s", "--kill-after", "3s", "x", "--", "sleep", "8")
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	assert.Contains(t, p.errOut.String(), "redlock: --kill-after is 1.5s: more of a ttl of 6s would leave no time for extensions that fail\n")
}
