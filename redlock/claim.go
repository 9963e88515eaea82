package redlock

import (
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// A claim is one attempt's token on a target, and what is known about its keys on every node; see [node.Trace].
type claim struct {
	node.Trace
	*target

	r         *core
	life      atomic.Int64              // in ns; see Life
	args      []any                     // the arguments of its lock request, boxed; the first is the token
	keptUntil atomic.Pointer[time.Time] // a release leaves the keys until then; nil: it deletes them
	fence     int64                     // the lock's, once there is a lock
	space     [2]any                    // for args

	leaves bool // a release may leave the keys: there is a min hold
	waited bool // others may be in line behind it: its request joined the line, or it is part of a turn

	// wakes: the release wakes waiters. Set before the first release is queued, and never after it, so it needs no lock:
	// a node's goroutines read it for releases only, which reach them through the link's mutex.
	wakes bool
}

// newClaim makes a claim with a token of its own; owner is its label, empty for none.
func (co *core) newClaim(t *target, owner string, le *terms) *claim {
	c := &claim{r: co, target: t}
	c.args = append(c.space[:0], tokens.WithLabel(tokens.New(), owner), le.ms)
	c.grow(le.ttl)
	c.Begin(c, len(co.nodes))
	return c
}

// askFence makes the lock request ask for a fence, of counters that live for that long. It proposes the client's clock
// in µs. With block, nodes also say what their counters were before.
func (c *claim) askFence(now time.Time, life time.Duration, block bool) {
	proposal := now.UnixMicro()
	if proposal > fences.Max {
		proposal = 0
	}
	c.args = append(c.args, proposal, serverMillis(life))
	if block {
		c.args = append(c.args, true)
	}
}

func (c *claim) token() string { return c.args[0].(string) }

// wakeOthers makes the claim's releases wake waiters, from the first one on.
func (c *claim) wakeOthers() {
	if !c.wakes { // Nodes may read it by now: it must not be written again.
		c.wakes = true
	}
}

// grow notes that the keys may be given ttl to live. Call it before the request is sent: no answer may come.
func (c *claim) grow(ttl time.Duration) {
	for {
		life := c.life.Load()
		if life >= int64(ttl) || c.life.CompareAndSwap(life, int64(ttl)) {
			return
		}
	}
}

// Life returns the longest ttl that the keys may have been given.
func (c *claim) Life() time.Duration { return time.Duration(c.life.Load()) }

// LeavesKeys reports whether a release may leave the keys.
func (c *claim) LeavesKeys() bool { return c.leaves }

// Keys returns the keys of the resources.
func (c *claim) Keys() []any { return c.keys }

// Value returns the token, boxed.
func (c *claim) Value() any { return c.args[0] }

// Release returns the release of a lock, or of an attempt that was cut short, which tells the next in line; or of an
// attempt that failed, which tells nobody. A repeated one always tells. The receiver learns who was told.
func (c *claim) Release(now time.Time, again bool) (node.Command, node.Receiver) {
	if !c.wakes && !again {
		return undoCommand(c), nil
	}
	return c.releaseTelling(now, again), &wakeReader{r: c.r, on: c.target}
}

func (c *claim) releaseTelling(now time.Time, again bool) node.Command {
	if t := c.keptUntil.Load(); t != nil && now.Before(*t) {
		return leaveCommand(c, serverMillis(t.Sub(now)))
	}
	if again {
		return lateCommand(c)
	}
	return unlockCommand(c)
}
