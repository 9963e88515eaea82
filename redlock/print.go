package redlock

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file is about what a Lock and a Redlock show of themselves in logs. Without it,
// fmt would print their fields: the token, by which anybody can release the lock, and
// what a pool keeps.

// String returns which resources are locked and for how long, without the token.
func (l *Lock) String() string {
	if err := l.invalid(); err != nil {
		return plain(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	s := "lock " + named(l.claim.resources, l.r.defaults.prefix)
	switch ended := l.errLocked(now); {
	case ended == nil:
		return s + fmt.Sprintf(": held for another %s", brief.Duration(l.until.remaining(now, l.r.wall())))
	case l.begun && l.before == nil:
		return s + ": released"
	default:
		return s + ": " + strings.TrimPrefix(plain(ended), "lock ")
	}
}

// Format prints what String returns, whatever the verb, so that no verb prints the token.
func (l *Lock) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.String()) }

// String returns which nodes are up and how many locks there are. It does no I/O.
func (r *Redlock) String() string {
	if err := r.invalid(); err != nil {
		return plain(err)
	}
	stats := r.Stats()
	nodes := make([]string, len(stats.Nodes))
	for i, n := range stats.Nodes {
		switch {
		case n.Up:
			nodes[i] = n.Node + " up"
		case n.Err != nil:
			nodes[i] = n.Node + " down"
		default:
			nodes[i] = n.Node + " not connected yet"
		}
	}
	return fmt.Sprintf("redlock over %d nodes, quorum %d (%s): %d held, %d waiting",
		len(nodes), r.need, strings.Join(nodes, ", "), stats.Held, stats.Waiting)
}

// Format prints what String returns, whatever the verb.
func (r *Redlock) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.String()) }

// MarshalJSON returns the fields by their names, as usual, but for Err and Abstains, which are
// their texts, empty for none.
func (n NodeStats) MarshalJSON() ([]byte, error) {
	type fields NodeStats // Without this method.
	return json.Marshal(struct {
		fields

		Err, Abstains string
	}{fields(n), textOf(n.Err), textOf(n.Abstains)})
}

// textOf is the text of an error, empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
