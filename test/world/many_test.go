package world

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about many tokens, each with a key of its own: what a search over one or two cannot come to.

// An owner is that of one of many tokens, on one to three resources.
type owner struct {
	node.Trace

	id   int
	life time.Duration // 0: a ttl
}

func (o *owner) Life() time.Duration { return cmp.Or(o.life, ttl) }
func (o *owner) LeavesKeys() bool    { return false }
func (o *owner) Keys() []any         { return []any{4 * o.id, 4*o.id + 1, 4*o.id + 2}[:1+o.id%3] }
func (o *owner) Value() any          { return o.id }

func (o *owner) Release(time.Time, bool) (node.Command, node.Receiver) {
	return node.Command{Script: release, Keys: o.Keys(), Args: []any{o.id}}, nil
}

func (o *owner) request(kind node.Kind, s *node.Script) *node.Request {
	return &node.Request{Task: &node.Task{Kind: kind, Command: node.Command{Script: s, Keys: o.Keys(), Args: []any{o.id}}, Trace: &o.Trace, Limit: shortTimeout}, Index: uint16(o.index())}
}

// index is the node's place among seven.
func (o *owner) index() int { return o.id % 7 }

// A crowd is many tokens on one node, with a server that carries out all at once.
type crowd struct {
	t    *testing.T
	n    *node.Node
	c    *node.Conn
	keys map[int]bool // those that are set: each has one token that may
	now  time.Duration
	due  time.Duration
	back string // what the server refuses all with; empty: nothing
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	code := func(err error) string { return fmt.Sprint(err) }
	return &crowd{t: t, keys: map[int]bool{}, n: node.New(node.Config{
		Timeout: shortTimeout, Silence: time.Second, Epoch: epoch.Add(-time.Hour), UnusedKey: "none", Code: code,
		MaxUnanswered: func() int64 { return node.MaxBacklog }, IsEnough: func() bool { return false },
	})}
}

func (w *crowd) at() time.Time { return epoch.Add(w.now) }

// locking returns a crowd of so many tokens whose lock requests are queued.
func locking(t *testing.T, count int) (*crowd, []*owner) {
	t.Helper()
	w, all := newCrowd(t), owners(0, count, 0)
	for _, o := range all {
		require.NoError(t, w.n.Enqueue(o.request(node.LockRequest, lock), w.at()))
	}
	w.connect()
	return w, all
}

// asked returns one whose lock requests are written, and not carried out.
func asked(t *testing.T, count int) (*crowd, []*owner) {
	t.Helper()
	w, all := locking(t, count)
	require.Len(t, w.write(), count)
	return w, all
}

// granted returns one whose locks are granted.
func granted(t *testing.T, count int) (*crowd, []*owner) {
	t.Helper()
	w, all := locking(t, count)
	w.carry()
	return w, all
}

// owners returns so many tokens.
func owners(from, count, size int) []*owner {
	all := make([]*owner, count)
	for i := range all {
		all[i] = &owner{id: from + i}
		if size > 0 {
			all[i].BeginForeign(all[i], 7, size)
		} else {
			all[i].Begin(all[i], 7)
		}
	}
	return all
}

func (w *crowd) connect() {
	w.c = new(node.Conn)
	w.n.Connected(w.c, w.at())
	w.note()
}

// breaks has the connection break, and rest an attempt to make the next one fail.
func (w *crowd) breaks() {
	w.n.End(w.c, errors.New("broken"))
	_, _ = w.n.Ended(w.c, false, w.at())
}

func (w *crowd) rest() { _, _ = w.n.Rest(errors.New("away"), w.at()) }

func (w *crowd) note() {
	w.n.Facts()
	_, _ = w.n.Alarm()
	if at, set := w.n.Due(); set {
		w.due = at.Sub(epoch)
	}
}

// write returns what is written.
func (w *crowd) write() (sent []node.Sending) {
	for w.n.Queued(w.c) > 0 {
		batch, _ := w.n.Next(w.c, nil, w.at())
		require.LessOrEqual(w.t, len(batch), 256, "of one batch")
		sent = append(sent, batch...)
		w.note()
	}
	return sent
}

// carry has the server carry out what is written, and its answers be heard.
func (w *crowd) carry() {
	for sent := w.write(); len(sent) > 0; sent = w.write() {
		keys := 0
		for _, s := range sent {
			if s.Command.Script == node.Look {
				keys += len(s.Command.Keys)
			}
			reply, err := w.serve(s.Command)
			w.n.Answer(w.c, reply, err, w.at())
			w.note()
		}
		require.LessOrEqual(w.t, keys, 66, "that are looked at at a time")
	}
}

func (w *crowd) serve(c node.Command) (reply any, err error) {
	if w.back != "" {
		return nil, errors.New(w.back)
	}
	switch c.Script {
	case lock:
		for _, key := range c.Keys {
			w.keys[key.(int)] = true
		}
		return "yes", nil
	case extend:
		for _, key := range c.Keys {
			if !w.keys[key.(int)] {
				return "gone", nil
			}
		}
		return "yes", nil
	case release:
		said := "gone"
		for _, key := range c.Keys {
			if w.keys[key.(int)] {
				said = "yes"
			}
			delete(w.keys, key.(int))
		}
		return said, nil
	case node.Look:
		held := []any{}
		for i, key := range c.Keys {
			if w.keys[key.(int)] {
				held = append(held, int64(i+1))
			}
			require.Equal(w.t, key.(int)/4, c.Args[i], "the token that is looked for")
		}
		return held, nil
	}
	return int64(1), nil
}

// run has time pass, and all be done that is due then.
func (w *crowd) run(d time.Duration) {
	for end := w.now + d; ; {
		w.carry()
		if w.due == 0 || w.due > end {
			w.now = end
			return
		}
		w.now, w.due = max(w.now, w.due), 0
		w.n.Tick(w.at())
		w.note()
	}
}

// Of many lock requests that a broken connection has left unknown, some arrive at any time later. All are released.
func TestManyThatComeLateAreReleased(t *testing.T) {
	w := newCrowd(t)
	all := owners(0, 500, 0)
	for _, o := range all {
		require.NoError(t, w.n.Enqueue(o.request(node.LockRequest, lock), w.at()))
	}
	w.connect()
	require.Len(t, w.write(), 500)
	w.breaks()
	for _, o := range all {
		require.NoError(t, w.n.Enqueue(o.request(node.Release, release), w.at()))
	}
	w.connect()
	w.run(0)
	s := w.n.Stats(w.at())
	assert.Equal(t, []int{0, 500}, []int{s.PendingReleases, s.Repeats})
	r := rand.New(rand.NewPCG(1, 1))
	late := func(o *owner) int {
		keys := o.Keys()
		key := keys[r.IntN(len(keys))].(int)
		w.keys[key] = true
		return key
	}
	for _, o := range all[:8] {
		w.run(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		key, came := late(o), w.now
		w.run(came + firstGap)
		assert.NotContains(t, w.keys, key, "what came %v after its release", came)
	}
	for i, o := range all[8:] {
		late(o)
		w.run(time.Duration(r.Int64N(2 * int64(50*time.Minute-w.now) / int64(len(all)-i)))) // For nearly an hour.
	}
	w.run(3 * time.Hour)
	assert.Empty(t, w.keys)
	s = w.n.Stats(w.at())
	assert.Equal(t, []int{0, 0, 0}, []int{s.PendingReleases, s.Repeats, s.Backlog})
}

// A release that the server refuses for a while is carried out soon after.
func TestManyThatAreRefusedForLongAreReleased(t *testing.T) {
	w, all := granted(t, 100)
	w.back = "BUSY"
	for _, o := range all {
		require.NoError(t, w.n.Enqueue(o.request(node.Release, release), w.at()))
	}
	w.run(10 * time.Minute)
	assert.Equal(t, 100, w.n.Stats(w.at()).PendingReleases)
	w.back = ""
	w.run(2 * time.Second)
	assert.Empty(t, w.keys)
	assert.Zero(t, w.n.Stats(w.at()).PendingReleases)
}

// Which errors say that a lock request was not carried out: after these nothing is released.
func TestManyErrors(t *testing.T) {
	for code, refuses := range map[string]bool{
		"NOPERM": true, "NOAUTH": true, "WRONGTYPE": true, "OOM": true, "MISCONF": true, "READONLY": true, "LOADING": true, "BUSY": true, "NOREPLICAS": true,
		"MASTERDOWN": true, "CLUSTERDOWN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true, "ERR": false, "TRYAGAIN": false, "": false, "EXECABORT": false,
	} {
		w := newCrowd(t)
		o := owners(3, 1, 0)[0]
		require.NoError(t, w.n.Enqueue(o.request(node.LockRequest, lock), w.at()))
		w.connect()
		w.write()
		w.n.Answer(w.c, nil, errors.New(code), w.at())
		w.n.Release(&o.Trace, o.index(), w.at())
		assert.Equal(t, refuses, w.n.Queued(w.c) == 0, code)
		w.keys[o.Keys()[0].(int)] = !refuses
		w.run(ttl)
		assert.Equal(t, refuses, len(w.keys) > 0, code)
	}
}

// A node that is away for longer than keys live is owed nothing any more.
func TestManyThatAreOverAreForgotten(t *testing.T) {
	w, all := asked(t, 10)
	w.breaks()
	w.rest()
	for _, o := range all {
		require.Error(t, w.n.Enqueue(o.request(node.Release, release), w.at()))
	}
	w.now += ttl / 2
	w.rest()
	assert.Equal(t, 10, w.n.Stats(w.at()).PendingReleases)
	w.now += ttl
	w.rest()
	assert.Zero(t, w.n.Stats(w.at()).PendingReleases)
}

// Which reasons for a vote that is missing say nothing about the node.
func TestManyReasonsAreTheClientsOwn(t *testing.T) {
	c := node.Config{Code: func(err error) string { return err.Error() }}
	for _, own := range []error{node.ErrWithdrawn, node.ErrOverloaded, node.ErrClosed, node.ErrBacklog, node.ErrUnreached, node.StandstillError(1), errors.New("WRONGTYPE")} {
		assert.True(t, c.IsOwn(fmt.Errorf("%w", own)) || c.IsOwn(own), own)
	}
	for _, of := range []error{node.ErrTimeout, node.ErrSilent, node.ErrBehind, errors.New("OOM")} {
		assert.False(t, c.IsOwn(of), of)
	}
}

// Whatever happens to tokens on several resources, nothing of those that are released is left.
func TestManyAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newCrowd(t)
		all := owners(0, 12, 0)
		locked := map[*owner]bool{}
		for range 80 {
			o := all[r.IntN(len(all))]
			switch r.IntN(12) {
			case 0, 1, 2:
				if !locked[o] {
					locked[o] = true
					_ = w.n.Enqueue(o.request(node.LockRequest, lock), w.at())
				}
			case 3:
				_ = w.n.Enqueue(o.request(node.Ask, extend), w.at())
			case 4:
				delete(w.keys, o.Keys()[0].(int))
			case 5:
				w.back = []string{"", "BUSY", "ERR timeout"}[r.IntN(3)]
			case 6:
				w.n.Release(&o.Trace, o.index(), w.at())
			case 7:
				_ = w.n.Enqueue(o.request(node.Release, release), w.at())
			case 8:
				if w.c != nil {
					w.lose(r)
				}
			default:
				if w.c == nil && w.n.State() != node.Idle {
					w.connect()
				}
				if w.c != nil {
					w.run(time.Duration(r.IntN(200)) * time.Millisecond)
				}
			}
		}
		w.back = ""
		for _, o := range all {
			w.n.Release(&o.Trace, o.index(), w.at())
		}
		if w.c == nil {
			if w.n.State() == node.Backoff {
				w.n.Retry()
			}
			w.connect()
		}
		w.run(3 * ttl)
		s := w.n.Stats(w.at())
		require.Equal(t, []int{0, 0, 0, 0}, []int{len(w.keys), s.PendingReleases, s.Repeats, s.Backlog}, "seed %d", seed)
	}
}

// lose has the connection break, with what is written carried out or not, and sometimes the next attempt fail.
func (w *crowd) lose(r *rand.Rand) {
	sent := w.write()
	for _, s := range sent[:r.IntN(len(sent)+1)] {
		_, _ = w.serve(s.Command)
	}
	w.breaks()
	w.c, w.due = nil, 0
	if r.IntN(2) == 0 {
		w.rest()
	}
	w.note()
}

// The backlog is bounded, but for the releases of this client's own locks.
func TestManyRequestsHaveABound(t *testing.T) {
	w := newCrowd(t)
	own := owners(0, 1, 0)[0]
	require.NoError(t, w.n.Enqueue(own.request(node.LockRequest, lock), w.at()))
	w.connect()
	w.carry()
	ask := func() error { return w.n.Enqueue(owners(1, 1, 0)[0].request(node.Ask, extend), w.at()) }
	for range node.MaxBacklog {
		require.NoError(t, ask())
	}
	require.ErrorIs(t, ask(), node.ErrBacklog)
	other := owners(2, 2, 100)
	require.ErrorIs(t, w.n.Enqueue(owners(9, 1, 0)[0].request(node.LockRequest, lock), w.at()), node.ErrBacklog)
	require.ErrorIs(t, w.n.Enqueue(other[0].request(node.Release, release), w.at()), node.ErrBacklog)
	require.False(t, w.n.Aside(0, node.Command{Script: aside, Keys: resource}, new(mail), w.at()))
	require.NoError(t, w.n.Enqueue(own.request(node.Release, release), w.at()))
	assert.Equal(t, node.MaxBacklog+1, w.n.Stats(w.at()).Backlog)
	w.write()
	assert.Equal(t, node.MaxBacklog+1, w.n.Stats(w.at()).Backlog, "unanswered")
}

// What is kept for other processes' tokens has a bound, and is given back when nothing of them can come late any more.
func TestManyOfOtherProcessesHaveABound(t *testing.T) {
	for _, refused := range []string{"", "BUSY"} {
		w := newCrowd(t)
		w.connect()
		for round := range 5 {
			w.back = refused
			for i, o := range owners(10*round, 5, node.MaxForeign/4) {
				require.NoError(t, w.n.Enqueue(o.request(node.Release, release), w.at()))
				w.carry()
				s := w.n.Stats(w.at())
				assert.Equal(t, min(i+1, 4), s.PendingReleases+s.Repeats, refused)
				assert.EqualValues(t, round+max(i-3, 0), s.RepeatsDropped)
			}
			w.back = ""
			w.run(5 * time.Minute) // What was carried out is looked at for a minute or two.
			s := w.n.Stats(w.at())
			assert.Equal(t, []int{0, 0}, []int{s.PendingReleases, s.Repeats}, refused)
		}
	}
}

// Connections that work and break are made again at once, but not in a loop. Servers that fail are let rest.
func TestManyConnectionsAreMadeWithRests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var d node.Redialer
		at, made, rest := epoch, []time.Time{}, time.Duration(0)
		flaps := r.IntN(2) == 0
		for range 60 {
			served, wrong, failed := r.IntN(2) == 0, r.IntN(8) == 0, r.IntN(6) == 0
			lasted := time.Duration(r.IntN(3)) * 700 * time.Millisecond * time.Duration(r.IntN(2))
			if flaps {
				served, wrong, failed, lasted = true, false, false, 0
			}
			if r.IntN(40) == 0 {
				lasted += time.Hour
			}
			at = at.Add(lasted)
			var wait time.Duration
			if failed {
				wait = d.Failed()
			} else {
				wait = d.After(served, wrong, lasted, at)
			}
			worked := !failed && (served && !wrong || lasted >= time.Second)
			switch {
			case failed, wrong, !worked:
				if rest *= 2; worked {
					rest = 0
				}
				rest = min(max(rest, node.MinBackoff), node.MaxBackoff)
				require.Equal(t, rest, wait)
			default:
				rest = 0
				made = append(made, at.Add(wait))
				if n := len(made); n > node.Redials+1 {
					require.GreaterOrEqual(t, made[n-1].Sub(made[n-node.Redials-2]), 100*time.Millisecond, "more than %d at once", node.Redials)
				}
				require.LessOrEqual(t, wait, 6*time.Second)
			}
			at = at.Add(wait)
		}
	}
}

// A look that is refused is replaced by releases, and that ends, too.
func TestManyLooksThatAreRefusedEnd(t *testing.T) {
	w, all := asked(t, 3)
	w.breaks()
	w.connect()
	for _, o := range all {
		require.NoError(t, w.n.Enqueue(o.request(node.Release, release), w.at()))
	}
	w.run(0)
	sent := 0
	for end := 3 * time.Hour; w.due > 0 && w.now < end; sent++ {
		require.Less(t, sent, 100, "looks and releases")
		w.now, w.due = max(w.now, w.due), 0
		w.n.Tick(w.at())
		w.note()
		for _, s := range w.write() {
			if s.Command.Script == node.Look {
				w.n.Answer(w.c, nil, errors.New("NOPERM"), w.at())
			} else {
				w.n.Answer(w.c, "gone", nil, w.at())
			}
			w.note()
		}
		w.carry()
	}
	assert.Zero(t, w.n.Stats(w.at()).Repeats)
}
