package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// requireStory runs the demo with REDLOCK_NODES set to nodes, and checks its status, that
// it is not slow, and that it says the sentences in this order.
func requireStory(ctx context.Context, t *testing.T, out *recorder, nodes string, status int, sentences ...string) {
	t.Helper()
	start := time.Now()
	got := run(ctx, out, func(name string) string {
		if name == "REDLOCK_NODES" {
			return nodes
		}
		return ""
	})
	story := out.String()
	if got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the demo took %s", took)
	}
	rest := story
	for _, s := range sentences {
		_, after, found := strings.Cut(rest, s)
		if !found {
			t.Errorf("not said, or not in this order: %q", s)
			continue
		}
		rest = after
	}
	if t.Failed() {
		t.Logf("the story:\n%s", story)
	}
}

// A recorder keeps what is written and calls heard with every write. The printer
// takes care that there is one write at a time, and the last one is over when
// run returns.
type recorder struct {
	strings.Builder
	heard func(line string)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.heard != nil {
		r.heard(string(b))
	}
	return r.Builder.Write(b)
}

// WriteString is what io.WriteString prefers to Write.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

func requireNoKeys(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		_, found, err := n.Get(prefix + resource)
		if err != nil || found {
			t.Errorf("%s has the key: %t, error: %v", n.Name(), found, err)
		}
	}
}

func TestQuickstartTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	out := new(recorder)
	requireStory(t.Context(), t, out, "", 0,
		`"account:42" is locked: 3 of 5 nodes are enough for that.`,
		"== Three workers want it ==",
		"has the lock (attempt ",
		"Every worker had its turns, and there were never two at work.",
		`Bob's TryLock fails after `, `with "redlock: taken":`,
		": held by ",
		`Carol waits, but for no longer than 400ms: her Lock ends with "`,
		"Alice extends the lock",
		"Inspect asks every node who has the lock:",
		"node5: held by ",
		"== Two of five nodes die ==",
		"The demo kills node4.",
		"The demo kills node5.",
		"Alice extends the lock",
		"Alice unlocks, and the workers go on as before.",
		"has the lock (attempt ",
		"== A third node dies ==",
		"The demo kills node3.",
		`with "redlock: no quorum":`,
		"node1: ", "node2: ", "node3: ", "node4: ", "node5: ",
		`Carol waits, but for no longer than 400ms: her Lock ends with "`,
		"== The nodes come back ==",
		"Alice has the lock",
		"has the lock (attempt ",
		"All 5 nodes are connected again.",
		"The Redlock is closed",
		"No node has a key of the lock left.",
		"Everything went as told.",
	)
	for _, s := range []string{
		"Worker 1 has the lock", "Worker 2 has the lock", "Worker 3 has the lock",
		"node4 is down", "node5 is down", "node3 is down",
	} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("not said: %q", s)
		}
	}
}

func TestQuickstartOnServersOfTheUser(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	out := new(recorder)
	requireStory(t.Context(), t, out, strings.Join(c.Addrs(), ", "), 0,
		"The nodes are "+strings.Join(c.Addrs(), ", ")+".",
		"They are yours, from REDLOCK_NODES: the demo kills none of them.",
		`"account:42" is locked: 2 of 3 nodes are enough for that.`,
		"Every worker had its turns, and there were never two at work.",
		`with "redlock: taken":`,
		`Carol waits, but for no longer than 400ms: her Lock ends with "`,
		"Alice extends the lock",
		"Inspect asks every node who has the lock:",
		c.Addrs()[2]+": held by ",
		"The Redlock is closed",
		"Everything went as told.",
	)
	if s := out.String(); strings.Contains(s, "The demo kills") {
		t.Errorf("a server of the user was killed:\n%s", s)
	}
	requireNoKeys(t, c)
}

func TestQuickstartOnServersOfWhichOneIsDown(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	if err := c.Nodes[1].Stop(); err != nil {
		t.Fatal(err)
	}
	requireStory(t.Context(), t, new(recorder), strings.Join(c.Addrs(), ","), 0,
		"Inspect asks every node who has the lock:",
		c.Addrs()[0]+": held by ",
		c.Addrs()[1]+": no answer: ",
		"Everything went as told.",
	)
	requireNoKeys(t, c)
}

func TestQuickstartFailsOnServersThatCannotBeReached(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	for _, n := range c.Nodes[1:] {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	requireStory(t.Context(), t, new(recorder), strings.Join(c.Addrs(), ","), 1,
		"Too few nodes answer:",
		c.Addrs()[2]+": ",
		"FAILED: redlock: no quorum: do the servers run, at these addresses?",
	)
	requireNoKeys(t, c)
}

func TestQuickstartFailsOnAMalformedAddress(t *testing.T) {
	t.Parallel()
	requireStory(t.Context(), t, new(recorder), "localhost:6379,localhost", 1,
		`FAILED: redlock: node 1: malformed address "localhost"`)
}

func TestQuickstartEndsInGoodOrderWhenInterrupted(t *testing.T) {
	t.Parallel()
	c := testcluster.RunEmbedded(t, 3)
	for _, moment := range []string{"are enough for that", "Worker 2 has the lock", "Alice has the lock", "== The end"} {
		t.Run(moment, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &recorder{heard: func(line string) {
				if strings.Contains(line, moment) {
					cancel()
				}
			}}
			status, last := 130, "Interrupted."
			if moment == "== The end" {
				// It is not worth an interruption any more.
				status, last = 0, "Everything went as told."
			}
			requireStory(ctx, t, out, strings.Join(c.Addrs(), ","), status, moment, "The Redlock is closed", last)
			requireNoKeys(t, c)
		})
	}
}
