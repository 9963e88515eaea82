package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// String names a lock by its client and the call that acquired it.
func (l *lock) String() string { return fmt.Sprintf("%s's lock %d", l.client, l.call) }

// String names a call.
func (c *call) String() string { return fmt.Sprintf("%s's %s (call %d)", c.client, c.begin.Op, c.call) }

func span(from, to int64) string { return time.Duration(to - from).String() }

// seen is what nodes had of a lock.
func seen(all []history.Seen) string {
	var each []string
	for _, s := range all {
		each = append(each, fmt.Sprintf("node %d had %d keys for %s at %s", s.Node, s.Keys, span(0, s.Left), at(s.At)))
	}
	return strings.Join(each, ", ")
}
