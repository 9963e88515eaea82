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

// message gets what has been published to this process's channel on node i.
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

// pass has the next in line told of a release; see [waiting.Pass].
func (co *core) pass(p waiting.Pass) {
	resource, ok := strings.CutPrefix(p.Key, co.defaults.prefix)
	if !ok {
		return // No message of ours.
	}
	on := &target{prefix: co.defaults.prefix, resources: []string{resource}, keys: []any{p.Key}}
	cmd := passCommand(on, co.channel, p.Digest, p.Leave)
	t := &node.Task{Kind: node.Ask, Command: cmd, Limit: co.defaults.nodeTimeout, Receiver: &wakeReader{r: co, on: on}}
	_ = co.nodes[p.Node].Enqueue(&node.Request{Task: t, Index: uint16(p.Node)}, time.Now()) // If not, they poll.
}

// A wakeReader receives the answers to releases, and reads from them who was told.
type wakeReader struct {
	r    *core
	on   *target
	next node.Receiver // gets the answers, too; nil: there is none
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

// read reads what a release has answered. If it was this process that was told, there
// is a message. One that could not be told polls: it gets a chance, too.
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
