package redlock

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/node"
)

var errNoPublish = errors.New("the server refuses PUBLISH")

// The queueKeys are what a script needs besides a claim to put a client in line for
// resources, or to tell who is.
type queueKeys struct {
	r    *core
	keys []any // the resources' keys, their bells
}

func (r *core) queueKeys(resources []string, keys []any) *queueKeys {
	w := new(queueKeys)
	w.init(r, resources, keys, make([]any, 2*len(keys)))
	return w
}

// init sets w up, in the given space.
func (w *queueKeys) init(r *core, resources []string, keys, space []any) {
	w.r, w.keys = r, space
	lines.AddBells(space, r.defaults.prefix, reservedMark, resources, keys)
}

// wakeReader returns the voter of an Unlock of the claim, and has the claim's releases
// tell others from now on. The first one for a single resource, the usual case, is
// one allocation.
func (r *core) wakeReader(c *claim) *wakeReader {
	if c.wake != nil {
		return &wakeReader{wake: c.wake}
	}
	small := new(struct {
		wakeReader

		queueKeys queueKeys
		keys      [2]any
	})
	space := small.keys[:]
	if n := 2 * len(c.keys); n > len(space) {
		space = make([]any, n)
	}
	small.queueKeys.init(r, c.resources, c.keys, space)
	c.wake, small.wake = &small.queueKeys, &small.queueKeys
	return &small.wakeReader
}

// message gets what has been published to this process's channel on node i.
func (r *core) message(i int, payload string) {
	if key, digest, ok := lines.DecodeMessage(payload); ok {
		r.queue.Hear(i, key, digest)
	}
}

// pass has the next in line for a key at node i told, if the resource is free, of the
// release that digest names. If this process does not wait any more, it leaves the
// line.
func (r *core) pass(i int, key, digest string, leave bool) {
	resource, ok := strings.CutPrefix(key, r.defaults.prefix)
	if !ok {
		return // No message of ours.
	}
	w := r.queueKeys([]string{resource}, []any{key})
	t := &node.Task{Kind: node.Ask, Command: passCommand(w.keys, r.channel, digest, leave), Limit: r.defaults.nodeTimeout, Voter: &wakeReader{wake: w}}
	_ = r.nodes[i].Enqueue(&node.Request{Task: t, Index: uint16(i)}, time.Now()) // If not, they poll.
}

// A wakeReader is a voter that reads from the answers to releases who was told.
type wakeReader struct {
	wake *queueKeys
	next node.Voter  // gets the votes, too; nil: there is none
	told atomic.Bool // a node has told somebody
}

func (t *wakeReader) Vote(i int, out node.Outcome, at time.Time) {
	if len(out.Told) > 0 {
		t.read(i, out.Told)
	}
	if t.next != nil {
		t.next.Vote(i, out, at)
	}
}

// read reads what lines.TellLua has answered. If it was this process that was told, there
// is a message. One that could not be told polls: it gets a chance, too.
func (t *wakeReader) read(i int, told []string) {
	r, keys := t.wake.r, t.wake.keys
	for k, channel := range told[:min(len(told), len(keys)/2)] {
		reserved, late := strings.CutPrefix(channel, lines.StillReserved)
		switch {
		case channel == "", late && reserved == r.channel: // No message comes.
			continue
		case channel == lines.RefusedToTell:
			r.subscriptions.Complain(i, node.NoPublish, errNoPublish)
		default:
			t.told.Store(true)
		}
		if channel != r.channel {
			r.queue.GaveWay(keys[k].(string))
		}
	}
}
