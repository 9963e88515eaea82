package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/redlock"
)

// ours is a client of a Redlock.
func ours(name string, r *redlock.Redlock, ttl time.Duration) client {
	return client{Name: name, NewWorker: func() worker { return libraries.RedlockWorker(r, ttl) }}
}

// An observation is one lock+unlock.
type observation struct {
	start        time.Time
	locked, took time.Duration // until there was the lock, and until it was released
	failed       bool          // there was none
	left         bool          // its release has failed
}

func (o observation) end() time.Time { return o.start.Add(o.took) }

func observe(w worker, key string) observation {
	ctx := context.Background()
	o := observation{start: time.Now()}
	o.failed = w.Try(ctx, key) != nil
	o.locked = time.Since(o.start)
	o.left = !o.failed && w.Unlock(ctx) != nil
	o.took = time.Since(o.start)
	return o
}

// A crew is callers that lock and unlock in the background.
type crew struct {
	stop atomic.Bool
	wg   sync.WaitGroup
	seen [][]observation // by caller
}

// startCrew has so many callers work. Each has a key of its own, which begins with prefix, or one for each lock: what a
// failed unlock has left is in nobody's way then. rest is what a caller does that got no lock.
func startCrew(c client, callers int, prefix string, fresh bool, rest func()) *crew {
	g := &crew{seen: make([][]observation, callers)}
	for i := range callers {
		g.wg.Go(func() {
			w, own := c.NewWorker(), prefix+strconv.Itoa(i)
			key := own
			for n := 0; !g.stop.Load(); n++ {
				if fresh {
					key = own + ":" + strconv.Itoa(n)
				}
				o := observe(w, key)
				g.seen[i] = append(g.seen[i], o)
				if o.failed {
					rest()
				}
			}
		})
	}
	return g
}

// end stops the callers, and returns what they have seen.
func (g *crew) end() []observation {
	g.stop.Store(true)
	g.wg.Wait()
	return slices.Concat(g.seen...)
}

// A phase is what was observed in a part of the time.
type phase struct {
	length       time.Duration
	locked, took []time.Duration // of those that succeeded, sorted
	failed, left int             // locks that were not got, and releases that failed
}

// newPhase picks what ended between from and to, so that an operation that a fault caught in the
// middle belongs to the fault.
func newPhase(seen []observation, from, to time.Time) phase {
	p := phase{length: to.Sub(from)}
	for _, o := range seen {
		switch end := o.end(); {
		case !end.After(from) || end.After(to):
		case o.failed:
			p.failed++
		case o.left:
			p.left++
			p.locked = append(p.locked, o.locked)
		default:
			p.locked, p.took = append(p.locked, o.locked), append(p.took, o.took)
		}
	}
	slices.Sort(p.locked)
	slices.Sort(p.took)
	return p
}
