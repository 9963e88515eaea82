package redlockhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
	"github.com/seed6c881748/redlock/test/testkit"
)

// texts are what is wrong, with the level before it. All of it has a next step, and where to read on.
func texts(t *testing.T, h http.Handler) []string {
	t.Helper()
	texts := []string{}
	for _, w := range state(t, h).Wrong {
		texts = append(texts, w.Level+": "+w.Text)
		assert.NotEmpty(t, w.Next, w.Text)
		assert.Regexp(t, `^https://github\.com/\S+/docs/\w+\.md#[a-z-]+$`, w.See, w.Text)
	}
	return texts
}

// onlyText returns the one text among what is wrong that contains another.
func onlyText(t *testing.T, h http.Handler, part string) string {
	t.Helper()
	found := ""
	for _, text := range texts(t, h) {
		if strings.Contains(text, part) {
			assert.Empty(t, found, "twice")
			found = text
		}
	}
	require.NotEmpty(t, found, "nothing has %q: %q", part, texts(t, h))
	return found
}

func TestNothingIsWrong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, h http.Handler) {
		_, body := get(t, h, http.MethodGet, "/?format=json")
		assert.Contains(t, body, `"wrong":[]`, "nobody has locked yet")
		assert.NotContains(t, body, "0001-01-01", "times that have not been")
		testkit.TryLock(t, r, []string{"x"}, time.Minute)
		synctest.Wait()
		assert.Empty(t, texts(t, h))

		abstains := newRedlock(t, c, redlock.WithQuarantine(time.Minute))
		_, err := abstains.TryLock(t.Context(), []string{"y"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		synctest.Wait()
		h = redlockhttp.Handler(abstains)
		assert.Zero(t, state(t, h).Up)
		assert.Regexp(t, `^warning: node1 is in quarantine: quarantined for another (59|1m0|1m1)\S*s\.$`, onlyText(t, h, "node1 is in quarantine:"))
	})
}

// Neither a node that is down nor one that repairs its keys hides a flush.
func TestVanishedKeysAreWrong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, h http.Handler) {
		time.Sleep(2 * time.Hour) // From midnight.
		locks := make([]*redlock.Lock, 20)
		for i := range locks {
			var err error
			locks[i], err = r.TryLock(t.Context(), []string{strings.Repeat("x", i+1)}, 48*time.Hour)
			require.NoError(t, err)
			synctest.Wait() // Until all three nodes have it.
		}
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[2].Flush())
		for _, l := range locks {
			_ = l.Extend(t.Context(), 48*time.Hour)
		}
		synctest.Wait()
		at := time.Now()
		want := "warning: " + c.Nodes[2].Name() + " has lost keys of 20 held locks since the start, the last at "
		assert.Equal(t, want+at.Format(time.TimeOnly)+".", onlyText(t, h, "lost keys"))
		n := state(t, h).Nodes[2]
		assert.Equal(t, int64(20), n.Vanished)
		assert.WithinDuration(t, at, n.VanishedAt, time.Second)
		time.Sleep(23 * time.Hour)
		assert.Equal(t, want+at.Format(time.DateTime)+".", onlyText(t, h, "lost keys"), "what happened at night is there in the morning")
		time.Sleep(2 * time.Hour)
		assert.NotContains(t, strings.Join(texts(t, h), ""), "lost keys")
	})
}

// A node that answers too late is not up, whatever its connection is.
func TestUnresponsiveNodesAreNotUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, h http.Handler) {
		lock := func() {
			if l, err := r.TryLock(t.Context(), []string{"x"}, time.Minute); err == nil {
				require.NoError(t, l.Unlock(t.Context()))
			}
			time.Sleep(time.Second)
		}
		lock()
		require.NoError(t, c.Nodes[1].Slow(200*time.Millisecond, 200*time.Millisecond))
		for range 10 {
			lock()
		}
		s := state(t, h)
		assert.Equal(t, 2, s.Up)
		assert.Equal(t, "unresponsive", s.Nodes[1].State)
		name := c.Nodes[1].Name()
		late := onlyText(t, h, "bad: "+name+" is unresponsive: no vote in time for ")
		assert.Regexp(t, `; a request takes (3[0-9]{2}|400)ms\.$`, late, "a mean, which begins with the quick ones")
		assert.Equal(t, "warning: With one more node away there is no quorum: 1 of 3 nodes gives no vote ("+name+" is unresponsive).", onlyText(t, h, "quorum"))
		assert.Len(t, s.Wrong, 2, "the event says no more than the state")

		require.NoError(t, c.Nodes[2].Stop())
		synctest.Wait()
		assert.Equal(t, "bad: There is no quorum: 2 of 3 nodes give no votes ("+name+" is unresponsive, "+c.Nodes[2].Name()+" is down), and 2 votes are needed.",
			onlyText(t, h, "There is no quorum"))
		require.NoError(t, c.Nodes[2].Restart(true))
		require.NoError(t, c.Nodes[1].Slow(0, 0))
		for range 5 {
			lock()
		}
		assert.Equal(t, 3, state(t, h).Up)
		assert.Contains(t, onlyText(t, h, "unresponsive"), "warning: 1 event “node unresponsive” in the last 15 minutes")
		time.Sleep(16 * time.Minute)
		assert.Empty(t, texts(t, h))
	})
}

func TestAStuckHolderIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, 3)
		r := newRedlock(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(10*time.Second))
		other := newRedlock(t, c, redlock.WithOwner("vm3/22242"))
		h := redlockhttp.Handler(r, redlockhttp.WithSemaphores("permits"))
		ctx, cancel := context.WithCancel(t.Context())
		hold := func(r *redlock.Redlock, name string) {
			l, err := r.Lock(ctx, []string{name}, time.Minute)
			require.NoError(t, err)
			l.KeepAlive(ctx)
		}
		hold(other, "nightly-report")
		hold(r, "own")
		hold(other, "permits#3")
		for _, name := range []string{"q", "r", "s", "t"} { // Two more than are shown.
			hold(r, name)
		}
		begun := time.Now() // Of the wait, and of the holders.
		for i := range 36 {
			name := "nightly-report"
			if i >= 30 {
				name = []string{"own", "permits#3", "q", "r", "s", "t"}[i-30]
			}
			go func() { _, _ = r.Lock(ctx, []string{name}, time.Minute) }()
		}
		time.Sleep(4 * time.Minute)
		assert.Empty(t, texts(t, h), "not yet")
		go func() { _, _ = r.Lock(ctx, []string{"nightly-report"}, time.Minute) }()
		time.Sleep(16*time.Minute + time.Second)
		at := begun.Format(time.TimeOnly)
		assert.Equal(t, "warning: 31 calls wait for nightly-report, the longest for 20 min: vm3/22242 has held it since "+at+" at least.", onlyText(t, h, "nightly-report"))
		assert.Regexp(t, "^warning: 1 call waits for own, the longest for 20 min: [0-9a-f]{12}, in this process, has held it since "+at+`\.$`, onlyText(t, h, "own,"))
		assert.Equal(t, "warning: Calls wait for a permit of permits, the longest for 20 min.", onlyText(t, h, "permits"))
		assert.Equal(t, "warning: 2 more resources are waited for for longer than 5 min.", onlyText(t, h, "more resources"))
		s := state(t, h)
		assert.InDelta(t, 20*60e3, s.Counts.OldestWait, 2e3)
		for _, w := range s.Waiting {
			assert.True(t, w.Holder == "" || w.HolderSince.Sub(begun) < time.Second)
		}
		_, body := get(t, h, http.MethodGet, "/?format=json&filter=nothing")
		assert.Contains(t, body, "31 calls wait", "a filter hides nothing that is wrong")

		require.NoError(t, c.First(2).Stop())
		time.Sleep(2 * time.Minute)
		assert.Contains(t, strings.Join(texts(t, h), "\n"), "for a quorum.")
		cancel()
		synctest.Wait()
	})
}

// What a server says decides what to look at.
func TestNextStepOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for why, want := range map[string]string{
			"READONLY You can't write against a read only replica.":   "leads to a replica",
			"NOAUTH Authentication required.":                         "the password",
			"OOM command not allowed when used memory > 'maxmemory'.": "memory is full",
			"MISCONF Redis is configured to save RDB snapshots":       "disk",
			"NOPERM User app has no permissions to run the 'set' one": "rights of its user",
			"NOREPLICAS Not enough good replicas to write.":           "refuses what it is asked",
			"": "answers too late",
		} {
			c := testcluster.RunBubble(t, 3)
			r := newRedlock(t, c)
			for i := range 10 {
				_, _ = r.TryLock(t.Context(), []string{strings.Repeat("x", i+1)}, time.Minute)
				time.Sleep(time.Second)
				if i == 0 && why == "" {
					require.NoError(t, c.Nodes[0].Slow(200*time.Millisecond, 200*time.Millisecond))
				} else if i == 0 {
					require.NoError(t, c.Nodes[0].SetError(why))
				}
			}
			found := ""
			for _, w := range state(t, redlockhttp.Handler(r)).Wrong {
				if w.Level == "bad" {
					found += w.Next
				}
			}
			assert.Contains(t, found, want, why)
		}
	})
}

// Clients with other nodes are bad news, those whose quorums always meet are for whoever changes the set; and what is
// over is among the events.
func TestSetsThatDifferAreWrong(t *testing.T) {
	for want, others := range map[string][]int{
		"bad: web, a client of node1 with 3 nodes, has node4 instead of node3: both can get a lock at once, " +
			"unless the prefixes or resources differ on purpose: then WithSetName says so.": {0, 1, 3},
		"warning: web, a client of node1 with 4 nodes, also has node4: their quorums always meet, " +
			"as while a set is changed by one node.": {0, 1, 2, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := testcluster.RunBubble(t, 4)
			all, nodes := testkit.NodesOf(c), []redlock.Node{}
			for _, n := range c.Nodes {
				require.NoError(t, n.ShowUptime())
			}
			for _, i := range others {
				nodes = append(nodes, all[i])
			}
			r, other := testkit.NewOver(t, all[:3]), testkit.NewOver(t, nodes, redlock.WithOwner("web"))
			h := redlockhttp.Handler(r)
			testkit.Warm(t, r)
			testkit.Warm(t, other)
			time.Sleep(time.Minute)
			assert.Equal(t, want, regexp.MustCompile(`client of node\d`).ReplaceAllString(onlyText(t, h, "web"), "client of node1"))
			assert.Equal(t, 1, state(t, h).Counts.SetsDiffer)
			require.NoError(t, other.Close(t.Context()))
			time.Sleep(3 * time.Minute)
			assert.Zero(t, state(t, h).Counts.SetsDiffer)
			assert.Equal(t, len(others) == 3, strings.Contains(strings.Join(texts(t, h), ""), "1 event “sets differ”"))
		})
	}
}

// The quorum is that of New whatever the number of nodes: two can do without none of them, and four without one.
func TestQuorumOfAnyNumberOfNodes(t *testing.T) {
	for n, need := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		inBubble(t, n, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, h http.Handler) {
			testkit.Warm(t, r)
			assert.Empty(t, texts(t, h))
			assert.Equal(t, need, state(t, h).Need)
			for down := 1; down <= n; down++ {
				require.NoError(t, c.Nodes[down-1].Stop())
				time.Sleep(time.Second)
				all := strings.Join(texts(t, h), "\n")
				assert.Equal(t, n-down == need, strings.Contains(all, "warning: With one more node away there is no quorum: "), "%d of %d: %s", down, n, all)
				assert.Equal(t, n-down < need, strings.Contains(all, "bad: There is no quorum: "), "%d of %d: %s", down, n, all)
				if n-down < need {
					assert.Regexp(t, fmt.Sprintf(`, and %d votes? (is|are) needed\.`, need), all)
				}
			}
		})
	}
}
