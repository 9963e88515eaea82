package servers

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// lateness measures until its result is called how late this process's timers
// fire: what the machine adds to every time that a test measures.
func lateness() (worst func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan time.Duration)
	go func() {
		const step = 5 * time.Millisecond
		var most time.Duration
		for start := time.Now(); rest(ctx, step, step); start = time.Now() {
			most = max(most, time.Since(start)-step)
		}
		done <- most
	}()
	return func() time.Duration {
		cancel()
		return <-done
	}
}

// requireNoQuorumSoon checks that attempts fail within 500 ms each, however
// silent the nodes 0 to 2 of 5 are, and blame them.
func requireNoQuorumSoon(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, how string) {
	t.Helper()
	worst := lateness()
	var longest time.Duration
	attempts := 0
	// So long that silent connections are given up and others are tried.
	for end := time.Now().Add(scenario(3*time.Second, 1500*time.Millisecond)); time.Now().Before(end); attempts++ {
		start := time.Now()
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		longest = max(longest, time.Since(start))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		votes := votesOf(t, err)
		require.Len(t, votes, 5)
		for i, v := range votes {
			assert.Equal(t, c.Nodes[i].Name(), v.Node)
			assert.Contains(t, err.Error(), v.Node)
			if i < 3 {
				require.Error(t, v.Err)
			}
		}
		rest(t.Context(), 0, 50*time.Millisecond)
	}
	late := worst()
	t.Logf("3 of 5 %s: %d attempts took at most %v (the machine's timers were up to %v late)", how, attempts, longest, late)
	assert.LessOrEqual(t, longest, 500*time.Millisecond+2*late)
}

// requireHealed checks that all five nodes serve again, soon, and have no
// key left of all that failed meanwhile.
func requireHealed(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, how string) {
	t.Helper()
	const promise, slack = 3 * time.Second, 3 * time.Second
	took := awaitAll(t, c, r, promise+slack)
	clean := awaitNoKeys(t, c, 30*time.Second)
	t.Logf("3 of 5 %s: locks on all nodes %v after the end, no key left %v later", how, took, clean)
}

func TestMajorityThatIsFrozenOrDeadIsNoQuorumAndHeals(t *testing.T) {
	for how, fault := range map[string]struct {
		begin func(*testcluster.Cluster) error
		end   func(*testcluster.Cluster) error
	}{
		"frozen": {(*testcluster.Cluster).Hang, (*testcluster.Cluster).Resume},
		"dead":   {(*testcluster.Cluster).Stop, func(c *testcluster.Cluster) error { return c.Restart(false) }},
	} {
		t.Run(how, func(t *testing.T) {
			if how == "frozen" && runtime.GOOS == "windows" {
				t.Skip("there is no signal to freeze a process")
			}
			t.Parallel()
			c := testcluster.RunServers(t, 5)
			r := newRedlock(t, c)
			awaitAll(t, c, r, 30*time.Second)
			require.NoError(t, fault.begin(c.First(3)))
			requireNoQuorumSoon(t, c, r, how)
			require.NoError(t, fault.end(c.First(3)))
			requireHealed(t, c, r, how)
		})
	}
}
