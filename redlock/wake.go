package redlock

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/waiting"
)

var errNoPublish = errors.New("the server refuses PUBLISH")

// message takes a message to this process's channel from node i.
func (co *core) message(i int, payload string) {
	key, digest, ok := lines.DecodeMessage(payload)
	if !ok {
		return
	}
	hear := (*waiting.Queue).Hear
	if co.isSlower(i) {
		hear = (*waiting.Queue).HearLate
	}
	co.line.Do(func(q *waiting.Queue, now time.Time) { hear(q, i, key, digest, now) })
}

// isSlower reports whether node i is much slower than a quorum of other nodes that this process listens to. Its messages
// are old news then.
func (co *core) isSlower(i int) bool {
	takes, quick := co.nodes[i].Takes(), 0
	for j, n := range co.nodes {
		if others := n.Takes(); j != i && others > 0 && lease.IsSlow(takes, others) && n.Listens() {
			quick++
		}
	}
	return quick >= co.need
}

// listening is called when messages of releases begin to arrive that did not before.
func (co *core) listening() {
	co.line.Do(func(q *waiting.Queue, _ time.Time) { q.Listening() })
}

// pass asks a node to tell the next waiter in its line of a release; see [waiting.Pass].
func (co *core) pass(p waiting.Pass) {
	resource, ok := strings.CutPrefix(p.Key, co.defaults.prefix)
	if !ok {
		return // No message of ours.
	}
	on := &target{prefix: co.defaults.prefix, resources: []string{resource}, keys: []any{p.Key}}
	cmd := passCommand(on, co.channel, p.Digest, p.Leave)
	t := &node.Task{Kind: node.Ask, Command: cmd, Limit: co.defaults.nodeTimeout, Receiver: &wakeReader{r: co, on: on}}
	_ = co.nodes[p.Node].Enqueue(&node.Request{Task: t, Index: uint16(p.Node)}, time.Now()) // Else they poll.
}

// A wakeReader receives the answers to releases, and learns from them who was told.
type wakeReader struct {
	r    *core
	on   *target
	next node.Receiver // gets the answers as well; nil: nobody does
	told atomic.Bool   // a node has told somebody
}

func (w *wakeReader) Receive(i int, out node.Outcome, at time.Time) {
	if len(out.Told) > 0 {
		w.read(i, out.Told)
	}
	if w.next != nil {
		w.next.Receive(i, out, at)
	}
}

// read takes the channels that a release has told, one for each key. This process gets a message if its own was told.
// Otherwise its waiters give way to the process that was told, or that polls because it could not be told.
func (w *wakeReader) read(i int, told []string) {
	r, keys := w.r, w.on.keys
	for k, channel := range told[:min(len(told), len(keys))] {
		reserved, late := strings.CutPrefix(channel, lines.StillReserved)
		switch {
		case channel == "", late && reserved == r.channel: // No message comes.
			continue
		case channel == lines.RefusedToTell:
			r.subscriptions.Complain(i, link.NoPublish, errNoPublish)
		default:
			w.told.Store(true)
		}
		if channel != r.channel {
			r.line.Do(func(q *waiting.Queue, now time.Time) { q.GaveWay(keys[k].(string), now) })
		}
	}
}
