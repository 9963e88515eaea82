package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inBubble plays on a playground in fake time.
func inBubble(t *testing.T, play func(p *player)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := open(t.Context(), 8*time.Second)
		require.NoError(t, err)
		defer p.close()
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
	})
}

func TestAMajorityDies(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("kill 1", "kill 2")
		p.says("Three of five answer, which is just enough")
		p.press("lock A", "release A")
		p.says("Client A has the lock: nodes 3, 4 and 5 said yes, which are 3 of 5.")
		p.press("kill 3", "lock B")
		p.says("Two of five answer", "Client B gets no lock: nodes 1, 2 and 3 could not be reached.", "Better no lock than two.")
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
		v, _ := p.look()
		var granted, others []string
		for _, said := range v.Marks[0].Votes {
			if said.Says == yes && len(granted) < 2 {
				granted = append(granted, said.Node)
			} else {
				others = append(others, said.Node)
			}
		}
		p.press("kill "+granted[0], "kill "+granted[1], "release A")
		p.says("Client A has released the lock: " + nodesText(others) + " deleted its key.")
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

// Two clients have the lock if a majority loses its keys, and not with quarantine.
func TestNodesLoseTheirKeys(t *testing.T) {
	inBubble(t, func(p *player) {
		p.press("lock A", "empty 1", "empty 2", "empty 3", "lock B")
		p.says("It has forgotten that client A has the lock. Nodes 2, 3, 4 and 5 still know.", "Nodes 4 and 5 still know, which is no majority",
			"Client B has the lock, too! Nodes 1, 2 and 3 said yes, though client A has it", "3 of 5 nodes know nothing of A")
		require.Equal(t, "AB", p.holders())
		p.press("quarantine on", "lock A", "empty 1", "empty 2", "empty 3", "lock B")
		p.says("It is in quarantine now", "Client B must wait", " abstained, in quarantine")
		time.Sleep(6 * time.Second)
		require.Empty(t, p.holders())
		time.Sleep(4 * time.Second)
		require.Equal(t, "B", p.holders())
	})
}

// Whatever is going on, a new start ends it.
func TestStartOver(t *testing.T) {
	inBubble(t, func(p *player) {
		for range 2 {
			p.press("auto on")
			time.Sleep(20 * time.Second)
			p.press("kill 1", "freeze 2", "suspend C")
			time.Sleep(5 * time.Second)
			p.press("reset")
			require.Equal(t, ".....", p.keys())
			p.press("quarantine on", "lock A", "quarantine off")
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
