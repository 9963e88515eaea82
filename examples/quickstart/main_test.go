package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// requireStory runs the demo without breaks on the nodes at addrs, and checks its status, that
// it is not slow even for a busy machine, and that it says the sentences in this order.
func requireStory(ctx context.Context, t *testing.T, out *recorder, addrs string, status int, sentences ...string) {
	t.Helper()
	start := time.Now()
	got := run(ctx, newPrinter(out), addrs, 0)
	story := out.text.String()
	assert.Equal(t, status, got)
	assert.Less(t, time.Since(start), 2*time.Minute)
	for _, s := range sentences {
		_, after, found := strings.Cut(story, s)
		require.True(t, found, "not said, or not in this order: %q\n%s", s, out.text.String())
		story = after
	}
}

// A recorder keeps what is written and calls heard with every write. The printer takes care that
// there is one write at a time, and the last one is over when run returns.
type recorder struct {
	text  strings.Builder
	heard func(line string)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.heard != nil {
		r.heard(string(b))
	}
	return r.text.Write(b)
}

// requireNoLocks checks that no node has the key of a lock.
func requireNoLocks(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		keys, err := n.Keys()
		require.NoError(t, err)
		for key := range keys {
			_, resource, _ := strings.Cut(key, ":") // After the prefix.
			if slices.Contains(resources, resource) {
				t.Errorf("%s has the key %s", n.Name(), key)
			}
		}
	}
}

func TestQuickstartTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	out := new(recorder)
	synctest.Test(t, func(t *testing.T) { // Its own servers need no ports.
		requireStory(t.Context(), t, out, "", 0,
			"one lock over 5 Redis servers, which are in memory",
			"1. One lock on several nodes\n", `alice.Lock(ctx, []string{"account:42"}, 5*time.Second)`,
			"node1 up   node2 up   node3 up   node4 up   node5 up",
			"3 of 5", "ok  Alice has the lock", "no  Bob is refused after ", `: held by "alice" (`, "no  Carol calls Lock", "ok  Alice unlocks",
			"2. Three processes take turns", " works for 100ms.", "ok  Everybody had two turns, and there were never two at work.",
			"3. Waiting in order", "ok  Number ", "A release wakes the next in line",
			"4. A lock that is lost", "ok  It was extended", "Somebody deletes", "no  The next extension finds out", "redlock: lock lost", "ok  Do returns ErrLost",
			"5. A writer that comes too late", "ok  Alice has the lock, and its fence", "ok  Bob gets the lock", "no  Alice wakes up",
			"6. Two of five nodes die", "node1 down   node2 down   node3 up", "ok  Alice extends", " works for 100ms.",
			"7. A third node dies", "node1 down   node2 down   node3 down   node4 up", "no  Bob is told after ",
			"8. The nodes come back", "ok  Alice has the lock", "node1 up   node2 up   node3 up",
			"The end", "ok  No node has a key of a lock left.", "ok  Everything went as told",
		)
	})
	for line := range strings.Lines(out.text.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 100+len("\n"), "too long for a terminal: %s", line)
	}
}

func TestQuickstartOnServersOfTheUser(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	require.NoError(t, c.Nodes[1].Stop())
	requireStory(t.Context(), t, new(recorder), strings.Join(c.Addrs(), ", "), 0,
		"one lock over 3 Redis servers, those of REDLOCK_NODES, none of which is stopped.",
		c.Addrs()[0]+" up   "+c.Addrs()[1]+" down   "+c.Addrs()[2]+" up",
		"2 of 3", "no  Bob is refused after ", "no  The next extension finds out",
		"5. A writer that comes too late", "no  Alice wakes up",
		"Left out", "3 acts in which nodes die",
		"The end", "ok  Everything went as told",
	)
	requireNoLocks(t, c)
}

func TestQuickstartFailsOnServersThatCannotBeReached(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	for _, n := range c.Nodes[1:] {
		require.NoError(t, n.Stop())
	}
	requireStory(t.Context(), t, new(recorder), strings.Join(c.Addrs(), ","), 1,
		"Too few nodes answer:",
		c.Addrs()[2]+": ",
		"FAILED: act 1: redlock: no quorum: do the servers run, at these addresses?",
	)
	requireNoLocks(t, c)
}

func TestQuickstartFailsOnAMalformedAddress(t *testing.T) {
	t.Parallel()
	requireStory(t.Context(), t, new(recorder), "localhost:6379,,", 1,
		`FAILED: redlock: node 2 of 3: malformed address "": it is empty: is a variable unset?`)
}

func TestQuickstartEndsInGoodOrderWhenInterrupted(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"2 of 3", "Bob works", "It was extended", "Her machine is suspended", "The end"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunEmbedded(t, 3)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &recorder{heard: func(line string) {
				if strings.Contains(line, moment) {
					cancel()
				}
			}}
			status, last := 130, "Interrupted."
			if moment == "The end" {
				// It is not worth an interruption any more.
				status, last = 0, "Everything went as told"
			}
			requireStory(ctx, t, out, strings.Join(c.Addrs(), ","), status, moment, "Alice, Bob and Carol call Close", last)
			requireNoLocks(t, c)
		})
	}
}

// What an act shows as its code is its code, but for what … stands for.
func TestTheCallsAreThoseOfTheActs(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range []string{"act_lock.go", "act_faults.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code.WriteString(strings.NewReplacer("d.alice", "alice", "d.bob", "bob", "d.carol", "carol").Replace(string(text)))
	}
	for _, a := range new(demo).program() {
		for _, call := range a.calls {
			call, _, _ = strings.Cut(call, " //")
			for part := range strings.SplitSeq(call, "…") {
				assert.Contains(t, code.String(), strings.Trim(part, " \t})"), a.title)
			}
		}
	}
}
