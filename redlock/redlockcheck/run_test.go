package redlockcheck

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

var (
	inBubble    = testkit.InBubble
	nodesOf     = testkit.NodesOf
	serverNodes = testkit.ServerNodes
	newPatient  = testkit.NewPatient
	cycle       = testkit.Cycle
	admin       = testkit.Admin
	clients     = testkit.Clients
	setUser     = testkit.SetUser
	secret      = testkit.Secret
)

// check returns what Run says of nodes, and shows it.
func check(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) Report {
	t.Helper()
	report, err := Run(t.Context(), nodes, opts...)
	require.NoError(t, err)
	require.Len(t, report.Nodes, len(nodes))
	t.Log("\n" + report.String())
	return report
}

// checkPatiently does so with a node timeout for real servers.
func checkPatiently(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) Report {
	t.Helper()
	return check(t, nodes, append([]redlock.Option{redlock.WithNodeTimeout(testkit.Patient)}, opts...)...)
}

func TestRunIsBounded(t *testing.T) {
	for name, act := range map[string]func(*testcluster.Node) error{
		"hung":       (*testcluster.Node).Hang,
		"black hole": func(n *testcluster.Node) error { n.Proxy().BlackHole(true); return nil },
		"stopped":    (*testcluster.Node).Stop,
		"loading":    func(n *testcluster.Node) error { return n.SetError("LOADING the dataset") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				for _, n := range c.Nodes[1:] {
					require.NoError(t, act(n))
				}
				start := time.Now()
				report := check(t, nodesOf(c), redlock.WithNodeTimeout(200*time.Millisecond))
				assert.LessOrEqual(t, time.Since(start), 1600*time.Millisecond)
				assert.Equal(t, OK, found(t, report, c.Nodes[0].Name(), "reachable").Verdict)
				check := map[bool]string{false: "reachable", true: "writes"}[name == "loading"]
				assert.Equal(t, Unfit, found(t, report, c.Nodes[1].Name(), check).Verdict)
			})
		})
	}
}

func TestRunFindsAClockThatIsOff(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const shift = -5 * time.Second
		nodes := nodesOf(c)
		require.NoError(t, c.Nodes[1].LeapClock(shift))
		report := check(t, nodes)
		require.InDelta(t, shift, report.Nodes[1].ClockOffset, float64(report.Nodes[1].ClockBound+2*time.Microsecond))
		for i, want := range []Verdict{OK, Warning, OK} {
			require.Equal(t, want, found(t, report, nodes[i].Name, "clock").Verdict)
		}
	})
}

// A node that is too slow to be asked everything does answer: where it runs, and whether the password is
// right, is not the question.
func TestRunOnNodesThatAreTooSlow(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Nodes[1].Slow(250*time.Millisecond, 250*time.Millisecond))
		require.NoError(t, c.Nodes[2].Slow(2*time.Second, 2*time.Second))
		report := check(t, nodesOf(c))
		assert.Equal(t, Finding{
			c.Nodes[1].Name(), "reachable", Unfit, "it answers too late: a round trip takes 500ms, and its votes come after the node timeout of 250ms",
			"Raise the node timeout to at least four round trips (WithNodeTimeout, --node-timeout), or use a node that is nearer",
		}, found(t, report, c.Nodes[1].Name(), "reachable"))
		assert.Equal(t, 500*time.Millisecond, report.Nodes[1].RTT)
		assert.Equal(t, Finding{
			c.Nodes[2].Name(), "reachable", Unfit, "it accepts a connection, and does not answer: TIME: no reply in time",
			"Look whether it hangs, or is so far away that the node timeout is too short (WithNodeTimeout, --node-timeout)",
		}, found(t, report, c.Nodes[2].Name(), "reachable"))
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		require.NoError(t, c.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := Run(ctx, nodesOf(c))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 30*time.Millisecond, time.Since(start))
	})
}

// Neither waits for the other, whoever has the only connection, and none is lost. Whether a node with such a pool
// answers is not known.
func TestRunOverPoolsOfOneConnection(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
			pool := &redis.Pool{
				MaxActive: 1, Wait: wait, MaxIdle: 1,
				DialContext: func(ctx context.Context) (redis.Conn, error) { return c.Nodes[0].Conn(ctx) },
			}
			nodes := []redlock.Node{{Name: "n", Pool: pool}}
			r := newPatient(t, nodes)
			for _, want := range []Verdict{OK, Unknown, Unknown} {
				assert.Equal(t, want, found(t, check(t, nodes), "n", "reachable").Verdict, "nobody else has it at first")
				cycle(t, r, "a", time.Minute)
				synctest.Wait()
			}
			require.NoError(t, r.Close(t.Context()))
			require.NoError(t, c.Nodes[0].Hang())
			assert.Equal(t, Unfit, found(t, check(t, nodes), "n", "reachable").Verdict)
			synctest.Wait() // The hung one is not waited for.
			assert.Zero(t, pool.ActiveCount()-pool.IdleCount())
			require.NoError(t, pool.Close())
		})
	}
}

func TestRunFindsAConnectionInAnotherDatabase(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		p := c.Nodes[0].Pool()
		nodes := []redlock.Node{{Name: "n", Pool: p}}
		require.Equal(t, OK, found(t, check(t, nodes), "n", "database").Verdict)
		selected, err := p.GetContext(t.Context())
		require.NoError(t, err)
		_, err = selected.Do("SELECT", 1)
		require.NoError(t, err)
		require.NoError(t, selected.Close())
		amiss := found(t, check(t, nodes), "n", "database")
		require.Equal(t, Unfit, amiss.Verdict)
		require.Contains(t, amiss.Text, "in database 1, not 0")
		require.Equal(t, OK, found(t, check(t, nodes), "n", "database").Verdict, "the pool's next one")
	})
}

func TestRunRefusesWhatNewDoes(t *testing.T) {
	_, err := Run(nil, nil) //nolint:staticcheck // That is what is tried.
	require.ErrorContains(t, err, "nil context")
	_, err = Run(t.Context(), nil)
	require.ErrorContains(t, err, "no nodes")
	_, err = Run(t.Context(), []redlock.Node{redlock.NewNode("redis://x y")})
	require.ErrorContains(t, err, "malformed address")
	_, err = Run(t.Context(), []redlock.Node{redlock.NewNode("127.0.0.1:1")}, redlock.WithQuarantine(0))
	require.ErrorContains(t, err, "maxTTL 0s")
}

// found returns a node's finding of a check.
func found(t *testing.T, r Report, node, check string) Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Node == node && f.Check == check })
	require.GreaterOrEqual(t, i, 0, "no finding %q of %q in %+v", check, node, r.Findings)
	return r.Findings[i]
}
