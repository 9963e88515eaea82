package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	examples "github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// A client stands for a process that wants the lock. Its state is guarded by the playground's mutex.
type client struct {
	st   *stage
	name string
	r    *examples.Process

	call     context.CancelFunc // ends its Lock; nil: none is running
	waits    bool               // that Lock was refused once
	granted  chan []vote        // the hook has heard that the lock was granted, by these votes
	heard    map[uint64][]vote  // what decided each call that goes on, by Event.Call; only the hook uses it
	lock     *redlock.Lock      // what it believes that it has
	overdue  bool               // that has ended while the client was suspended
	keeping  context.CancelFunc // ends the extensions; nil: there are none
	wantKept bool               // it had extensions when it was suspended
	extended string             // how the latest one has ended, of which somebody was told: yes, or why not; "": there was none
	fence    int64              // of its latest lock
	awake    chan struct{}      // closed when a suspension ends; nil: there is none
	woke     time.Time
}

func newClient(st *stage, name string) *client {
	c := &client{st: st, name: name, granted: make(chan []vote, 1), heard: map[uint64][]vote{}}
	c.r = st.Process(st.p.options(c)...)
	return c
}

// calls are what a client can be told to do. None of them waits for its end. All of them have p.mu.
var calls = map[string]func(c *client){
	"lock":    (*client).acquire,
	"giveup":  (*client).giveUp,
	"keep":    func(c *client) { c.keep(true) },
	"let":     func(c *client) { c.keep(false) },
	"release": (*client).release,
	"suspend": (*client).suspend,
	"resume":  (*client).resume,
	"write":   (*client).write,
}

// acquire has the client call Lock, which waits in line as long as somebody else has the lock.
func (c *client) acquire() {
	p := c.st.p
	if c.call != nil || c.lock != nil || c.awake != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.st.ctx)
	c.call, c.waits = cancel, false
	c.st.wg.Go(func() {
		lock, err := c.r.Lock(ctx, []string{resource}, p.ttl)
		cancel()
		var votes []vote
		if err == nil {
			select { // The votes are known as soon as the hook has been told.
			case votes = <-c.granted:
			case <-c.st.ctx.Done():
			}
		}
		if !c.whenAwake() {
			return
		}
		defer p.mu.Unlock()
		if err == nil {
			c.got(lock, votes)
		} else {
			c.refused(err)
		}
	})
}

// whenAwake waits for the end of a suspension, and returns true with p.mu held; or false if the stage is no longer there.
func (c *client) whenAwake() bool {
	for c.st.ctx.Err() == nil {
		c.st.p.mu.Lock()
		awake := c.awake
		if awake == nil {
			return true
		}
		c.st.p.mu.Unlock()
		select {
		case <-awake:
		case <-c.st.ctx.Done():
		}
	}
	return false
}

func (c *client) giveUp() {
	if c.call != nil {
		c.call()
	}
}

// keep has the lock be extended as long as it is held, or ends that.
func (c *client) keep(on bool) {
	if c.state() != "holds" || c.awake != nil || on == (c.keeping != nil) {
		return
	}
	c.extended = ""
	if on {
		c.startKeeping()
		c.say(info, " keeps its lock: it extends it whenever a third of its time is over.")
	} else {
		c.stopKeeping()
		c.say(info, " extends its lock no more. It has %s left.", c.left())
	}
}

// say says something of the client: the text goes on behind its name.
func (c *client) say(kind, format string, args ...any) {
	c.st.p.say(kind, c.name, "Client "+c.name+format, args...)
}

// left is for how long its lock is valid.
func (c *client) left() string { return seconds(time.Until(c.lock.Until())) }

// startKeeping and stopKeeping begin and end the extensions.
func (c *client) startKeeping() {
	ctx, cancel := context.WithCancel(c.st.ctx)
	c.lock.KeepAlive(ctx)
	c.keeping = cancel
}

func (c *client) stopKeeping() {
	if c.keeping != nil {
		c.keeping()
		c.keeping = nil
	}
}

// release has the client call Unlock.
func (c *client) release() {
	lock := c.lock
	if lock == nil || c.awake != nil {
		return
	}
	c.lock = nil
	c.stopKeeping()
	c.st.wg.Go(func() { _ = lock.Unlock(c.st.ctx) }) // The hook hears how that ends, and by which votes.
}

// suspend stands for a process that stops, as by SIGSTOP, a pause of its virtual machine or of its garbage collector: its
// connections carry nothing, it does nothing further, and it hears of nothing until it goes on.
func (c *client) suspend() {
	if c.awake != nil {
		return
	}
	c.awake, c.overdue = make(chan struct{}), false
	c.wantKept = c.keeping != nil
	c.stopKeeping()
	c.r.Suspend()
	if c.state() == "holds" {
		c.say(fault, " is suspended: its process stands still, so nobody extends its lock, which has %s left.", c.left())
	} else {
		c.say(fault, " is suspended: its process stands still, and answers nobody.")
	}
}

func (c *client) resume() {
	lock := c.lock
	if c.awake == nil {
		return
	}
	close(c.awake)
	c.awake, c.woke = nil, time.Now()
	c.r.Resume()
	ended := lock != nil && lock.Err() != nil
	if lock != nil && !ended && c.wantKept {
		c.startKeeping()
	}
	others := c.st.holders()
	switch {
	case ended && len(others) > 0:
		c.say(bad, " goes on. Its lock has ended, and client %s has it now; but %s may be in the middle of a write, "+
			"which no lock can stop. A fence can: have it write.", others[0].name, c.name)
	case ended:
		c.say(bad, " goes on, and learns that its lock has ended meanwhile.")
	case lock != nil:
		c.say(good, " goes on, in time: it still has its lock, for %s.", c.left())
	default:
		c.say(info, " goes on.")
	}
}

// write has the client write to the register, with the fence of its latest lock. It does not look at the lock before,
// just as a process does not that was suspended between its last look and the write.
func (c *client) write() {
	p, st := c.st.p, c.st
	if c.fence == 0 || c.awake != nil {
		return
	}
	last := st.wrote
	err := st.guard.Do(c.fence, func() error {
		st.writes++
		st.wrote = c.name
		return nil
	})
	if errors.Is(err, redlock.ErrFenced) {
		p.mark(c, markFenced, nil)
		c.say(bad, "'s write is refused: its fence is %s, and the register has seen %s, of client %s's later lock.",
			p.fenceText(c.fence), p.fenceText(st.guard.Seen()), last)
		return
	}
	p.mark(c, markWrite, nil)
	if c.state() == "holds" {
		c.say(good, " writes: its fence is %s, and the register has seen none that is larger.", p.fenceText(c.fence))
	} else {
		c.say(bad, " writes without the lock, and the register accepts it, as it has seen no fence "+
			"above %s. A later holder that first reads there, with its own fence, rules that out.", p.fenceText(c.fence))
	}
}

// waitsFor says which failures of an attempt Lock retries: somebody else has the lock, or nodes are in quarantine, or the
// client has not found out yet that nodes are back. A process that stands still makes no attempts; what becomes of one
// that was under way is none of its failures.
func (c *client) waitsFor(err error) bool {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	return errors.Is(err, redlock.ErrTaken) || c.st.up() >= need || c.awake != nil || time.Since(c.woke) < 2*nodeTimeout
}

// close ends the client, which may be suspended or have a lock.
func (c *client) close() {
	p := c.st.p
	p.mu.Lock()
	if c.awake != nil {
		close(c.awake)
		c.awake = nil
	}
	lock := c.lock
	c.lock = nil
	c.stopKeeping()
	p.mu.Unlock()
	c.r.Resume()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.st.ctx), time.Second)
	defer cancel()
	if lock != nil {
		_ = lock.Unlock(ctx) // The nodes end right after.
	}
	_ = c.r.Close(ctx)
}

// state says what the client does.
func (c *client) state() string {
	switch {
	case c.lock != nil && c.lock.Err() != nil:
		return "believes" // that it has the lock
	case c.lock != nil:
		return "holds"
	case c.call != nil && c.waits:
		return "waits"
	case c.call != nil:
		return "asks"
	default:
		return ""
	}
}

// setAuto has the clients lock and release by themselves, or ends that.
func (st *stage) setAuto(on bool) {
	p := st.p
	if p.auto == on {
		return
	}
	p.auto = on
	if !on {
		st.stopAuto()
		p.say(info, "", "The clients no longer lock and release by themselves.")
		return
	}
	ctx, cancel := context.WithCancel(st.ctx)
	st.stopAuto = cancel
	p.say(info, "", "The clients lock and release by themselves. Disturb them: kill a node, or suspend a client.")
	for _, c := range st.clients {
		st.wg.Go(func() { c.liveOn(ctx) })
	}
}

// liveOn is what a client does by itself: it locks, works for a while, writes, and releases.
func (c *client) liveOn(ctx context.Context) {
	between := func(low, high time.Duration) bool { return sleep(ctx, low+rand.N(high-low)) }
	for between(c.st.p.ttl/8, c.st.p.ttl) {
		c.do("lock", "") // Nothing, if it has or wants it already.
		if between(c.st.p.ttl/4, c.st.p.ttl/2) && c.do("write", "holds") && between(c.st.p.ttl/8, c.st.p.ttl/4) {
			c.do("release", "holds")
		}
	}
}

// do has the client do something if it is in this state.
func (c *client) do(what, state string) bool {
	c.st.p.mu.Lock()
	defer c.st.p.mu.Unlock()
	if c.state() != state {
		return false
	}
	calls[what](c)
	return true
}
