package judge

import (
	"fmt"
	"time"
)

// String names a lock by its client and the call that acquired it.
func (l *lock) String() string { return fmt.Sprintf("%s's lock %d", l.client, l.call) }

// String names a call.
func (c *call) String() string { return fmt.Sprintf("%s's %s (call %d)", c.client, c.begin.Op, c.call) }

func span(from, to int64) string { return time.Duration(to - from).String() }
