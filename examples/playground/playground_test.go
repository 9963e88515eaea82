package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// inBubble plays on a playground in fake time. Each sentence that is said is held against what is so.
func inBubble(t *testing.T, play func(p *player)) {
	t.Helper()
	inBubbleFor(t, 8*time.Second, play)
}

func inBubbleFor(t *testing.T, ttl time.Duration, play func(p *player)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := open(t.Context(), settings{ttl: ttl, pause: 3 * time.Second})
		require.NoError(t, err)
		defer p.close()
		bearWitness(t, p)
		time.Sleep(time.Second)
		play(&player{playground: p, t: t})
	})
}

// A player presses buttons and reads what was said.
type player struct {
	*playground
	t    *testing.T
	read int // how much of the log
}

// press presses buttons, one after the other, and waits a moment after each.
func (p *player) press(buttons ...string) {
	p.t.Helper()
	for _, b := range buttons {
		require.NoError(p.t, p.do(b), b)
		time.Sleep(500 * time.Millisecond)
	}
}

// says requires that these parts of sentences were said in this order since what was required before.
func (p *player) says(parts ...string) {
	p.t.Helper()
	v, _ := p.look()
	var said strings.Builder
	for _, s := range v.Log {
		fmt.Fprintf(&said, "%6d %s\n", s.At, s.Text)
	}
	rest := said.String()[p.read:]
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		require.True(p.t, found, "not said, or not in this order: %q in\n%s", part, said.String())
		rest = after
	}
	p.read = said.Len() - len(rest)
}

// holders are the clients that have the lock, in the view of each.
func (p *player) holders() (all string) {
	v, _ := p.look()
	for _, c := range v.Clients {
		if c.State == "holds" {
			all += c.Name
		}
	}
	return all
}

func (p *player) keys() (all string) {
	time.Sleep(2 * lookEvery)
	v, _ := p.look()
	for _, n := range v.Nodes {
		all += strings.Repeat(".", 1-len(n.Holder)) + n.Holder
	}
	return all
}

func TestLockWaitRelease(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("lock A", "keep A", "lock B")
		p.says("Client A has the lock: nodes ", "which are ", "Client A keeps its lock", "Client B must wait: nodes ", " said that client A has the lock")
		require.Equal(t, "AAAAA", p.keys())
		time.Sleep(30 * time.Second)
		p.says("Client A has extended its lock")
		require.Equal(t, "A", p.holders())
		p.press("release A")
		released := p.read
		p.says("Client A has released the lock")
		p.read = released // B may have it before A has heard of all nodes.
		p.says("Client B has the lock")
		time.Sleep(10 * time.Second)
		p.says("Client B's lock has ended, as its time is over.")
		require.Equal(t, ".....", p.keys())
		p.press("lock C", "lock D", "giveup D")
		p.says("Client D gives up")
		require.ErrorIs(t, p.do("kill 6"), errUnknown)
		require.ErrorIs(t, p.do("story none"), errUnknown)
	})
}

func TestAMajorityDies(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("kill 1", "kill 2")
		p.says("Three of five answer, which is just enough")
		p.press("lock A", "release A")
		p.says("Client A has the lock: nodes 3, 4 and 5 said yes, which are 3 of 5.")
		p.press("kill 3", "lock B")
		p.says("Only two of five answer", "Client B gets no lock: nodes 1, 2 and 3 could not be reached.", "Better no lock than two.")
		p.press("restart 3")
		time.Sleep(2 * time.Second)
		p.press("lock B")
		p.says("Client B has the lock: nodes 3, 4 and 5")
		p.press("restart 1", "restart 2", "freeze 3", "freeze 4", "freeze 5", "keep B")
		time.Sleep(10 * time.Second)
		p.says("Client B cannot extend its lock", "Client B's lock has ended: no majority has extended it in time.")
		p.press("thaw 3", "delay 4", "thaw 5")
		time.Sleep(2 * time.Second)
		p.press("lock C")
		p.says("Client C has the lock")
	})
}

// A release names the nodes that have deleted the key, which are not those that granted the lock if two of these died.
func TestAReleaseNamesThoseThatAnswered(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("lock A")
		p.mu.Lock()
		granted := slices.Clone(p.st.client("A").yes)
		p.mu.Unlock()
		require.Len(t, granted, need)
		p.press("kill "+granted[0], "kill "+granted[1], "release A")
		p.says("Client A has released the lock: " + nodesText(p.st.with("")) + " deleted its key.")
	})
}

func TestFencesOfASuspendedClient(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("write A", "lock A", "keep A", "write A", "suspend A", "lock A", "write A", "lock B")
		p.says("Client A writes", "Client A is suspended", "Client B must wait")
		time.Sleep(10 * time.Second)
		p.says("Client A's lock has ended: its time is over.", "Client B has the lock")
		p.press("keep B", "write B", "resume A")
		time.Sleep(10 * time.Second)
		p.press("write A")
		p.says("Client B writes", "Client A goes on. Its lock has ended, and client B has it now", "Client A's write is refused")
		p.press("release B", "lock A", "suspend A", "resume A", "release A")
		p.says("Client A has the lock", "Client A goes on, in time")
		v, _ := p.look()
		assert.Equal(t, registerView{Writes: 2, By: "B", Fence: v.Register.Fence}, v.Register)
	})
}

func TestASuspendedWaiterHoldsUpNobody(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("lock A", "lock B", "suspend B", "lock C", "release A")
		time.Sleep(3 * time.Second)
		p.says("Client C has the lock")
		p.press("release C", "resume B")
		time.Sleep(5 * time.Second)
		p.says("Client B goes on.", "Client B has the lock")
	})
}

// Each story ends by itself, and as it says. What is shown while it is told is so as long as it is shown: what comes next
// has not come, and what is said is so. That holds for locks of any length, slow or not, even where the story cannot go on.
func TestStoriesShowWhatIsSo(t *testing.T) {
	ends := map[string][]string{
		"majority": {
			"Client A has the lock", "Client A has extended", "Client B has the lock: nodes 1, 2 and 3 ", "Client B cannot extend",
			"Client B's lock has ended", "Client C gets no lock", "Client C has the lock",
		},
		"suspended": {
			"Client A is suspended", "Client B has the lock", "Client B writes",
			"Client A goes on. Its lock has ended, and client B has it now", "Client A's write is refused",
		},
		"forgotten": {
			"It has forgotten that client A has the lock. Nodes 2, 3, 4 and 5 still know",
			"Nodes 4 and 5 still know, which is no majority",
			"Two clients have the lock! Nodes 1, 2 and 3 said yes to client B", "three of five nodes know nothing of A",
		},
		"quarantine": {
			"It is in quarantine now", "Client B must wait", " abstained, in quarantine",
			"Client A's lock has ended", "Client B has the lock",
		},
	}
	for _, s := range stories {
		for _, ttl := range []time.Duration{time.Second, 8 * time.Second, 20 * time.Second} {
			if ttl == 20*time.Second && testing.Short() && testcluster.RaceEnabled {
				continue // It takes a minute and a half.
			}
			t.Run(fmt.Sprintf("%s %v", s.name, ttl), func(t *testing.T) {
				inBubbleFor(t, ttl, func(p *player) {
					if ttl == 20*time.Second {
						p.press("slow on")
					}
					require.NoError(t, p.do("story "+s.name))
					both := p.watch()
					if ttl == 8*time.Second {
						p.says(append(ends[s.name], "That was")...)
					}
					if s.name != "forgotten" {
						require.Zero(t, both, "two clients had the lock")
					}
					require.InDelta(t, both.Seconds(), p.st.two().Seconds(), 0.3)
				})
			})
		}
	}
}

// watch looks at what a story shows until it ends, and returns for how long two clients had the lock.
func (p *player) watch() (both time.Duration) {
	p.t.Helper()
	const every = lookEvery / 4
	for last, since := "", time.Now(); ; time.Sleep(every) {
		v, _ := p.look()
		if v.Story == nil {
			return both
		}
		require.Positive(p.t, v.Story.Step)
		require.LessOrEqual(p.t, v.Story.Step, v.Story.Of)
		require.NotEmpty(p.t, v.Story.Text)
		if v.Story.Text != last || p.shows(v.Story.Text) {
			last, since = v.Story.Text, time.Now()
		}
		// The story notices at its next look.
		require.Less(p.t, time.Since(since), lookEvery, "not so any more: %q", last)
		if len(p.holders()) > 1 {
			both += every
		}
	}
}

// shows reports whether what is shown is so.
func (p *player) shows(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &witness{t: p.t, p: p.playground, st: p.st}
	return w.shown(text)
}

// Whatever is going on, a new start ends it.
func TestStartOver(t *testing.T) {
	inBubble(t, func(p *player) {
		for range 2 {
			p.press("auto on", "slow on")
			time.Sleep(20 * time.Second)
			p.press("kill 1", "freeze 2", "suspend C")
			time.Sleep(5 * time.Second)
			p.press("reset")
			require.Equal(t, ".....", p.keys())
			p.press("slow off", "story quarantine", "stop", "quarantine off")
		}
	})
}

func TestAutoIsNeverTwo(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("auto on")
		writers := map[string]bool{}
		for rounds := 0; len(writers) < 1+len(clientNames); rounds++ { // All four, and nobody at first.
			require.Less(t, rounds, 2400)
			time.Sleep(250 * time.Millisecond)
			require.LessOrEqual(t, len(p.holders()), 1)
			v, _ := p.look()
			writers[v.Register.By] = true
		}
		p.press("auto off")
	})
}
