package fitness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
)

// What is asked of one node, and how the answers are read.

const (
	// minLimit is the least time in which one node is asked, and maxTrips how many node
	// timeouts it may take otherwise: it has to get through where a round trip takes
	// longer than the node timeout, to say so.
	minLimit = time.Second
	maxTrips = 8

	// maxSamples is how often the clock is read: the shortest round trip tells most.
	maxSamples = 5
)

// askLimit is how long one node may be asked.
func askLimit(nodeTimeout time.Duration) time.Duration {
	return max(maxTrips*nodeTimeout, minLimit)
}

// gather asks one node. It takes no longer than the limit.
func (s *Setup) gather(ctx context.Context, n *Node) facts {
	ctx, cancel := context.WithTimeout(ctx, askLimit(s.NodeTimeout))
	defer cancel()
	f := facts{node: n.Name}
	w, err := spare(ctx, n.Source)
	if err != nil {
		f.down = err
		f.alive = n.Alive(ctx)
		return f
	}
	unwatch := context.AfterFunc(ctx, w.Abort)
	defer func() {
		// Aborted in any case: it is subscribed, and of no use to its pool.
		unwatch()
		w.Abort()
		w.GiveBack()
	}()
	q := &questions{ctx: ctx, wire: w}
	if q.broken = w.Err(); q.broken == nil {
		q.broken = w.Abortable(ctx)
	}
	f.timing(q, s.NodeTimeout)
	f.place(q, n)
	f.configuration(q)
	f.quarantine(q, s.MarkerKey)
	f.undeclared(q, s.Key)
	f.rights(q, s, n.ResourceKey)
	f.down = q.broken
	return f
}

// spare borrows a connection besides the one that locks use. It takes no longer
// than half of what ctx leaves, so that time remains for answers.
func spare(ctx context.Context, from *conn.Source) (*conn.Wire, error) {
	limit := conn.TimeLeft(ctx) / 2
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := from.Borrow(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no connection within %v", brief.Duration(limit))
	}
	return w, err
}

// timing measures the round trip and the clock: a few times, but not for much longer
// than the node timeout.
func (f *facts) timing(q *questions, nodeTimeout time.Duration) {
	began := time.Now()
	for i := 0; i < maxSamples && (i == 0 || time.Since(began) < nodeTimeout); i++ {
		sent := time.Now()
		answers := q.ask([]any{"TIME"})
		rtt := time.Since(sent)
		if answers == nil {
			return
		}
		if err := answers[0].Err; err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
			q.broken = err // As for everything else.
			return
		}
		if i > 0 && rtt >= f.rtt {
			continue
		}
		f.rtt = max(rtt, 1)
		var at time.Time
		at, f.timeErr = serverTime(answers[0])
		f.offset = at.Sub(sent.Add(rtt / 2).Round(0)) // By the wall clock.
	}
}

// serverTime reads the answer to TIME.
func serverTime(a conn.Answer) (time.Time, error) {
	v, err := a.Numbers()
	if err != nil {
		return time.Time{}, fmt.Errorf("TIME: %w", err)
	}
	if len(v) != 2 {
		return time.Time{}, fmt.Errorf("TIME: %d values", len(v))
	}
	return time.Unix(v[0], v[1]*1000), nil
}

// configuration reads how the server is set up.
func (f *facts) configuration(q *questions) {
	answers := q.ask(
		[]any{"INFO"},
		[]any{"CLIENT", "INFO"},
		[]any{"CONFIG", "GET", "appendfsync"},
		[]any{"CONFIG", "GET", "no-appendfsync-on-rewrite"},
		[]any{"CONFIG", "GET", "timeout"},
		[]any{"INFO", "server"}, // The right to which may be all that is granted.
	)
	if answers == nil {
		return
	}
	if text, err := answers[0].Text(); err != nil {
		f.infoErr = fmt.Errorf("INFO: %w", err)
		text, _ = answers[5].Text()
		f.info = conn.ParseInfo(text)
	} else {
		f.info = conn.ParseInfo(text)
	}
	if client, err := answers[1].Text(); err == nil {
		f.database = field(client, "db=")
	}
	f.fsync, f.fsyncErr = setting(answers[2])
	f.lenient, _ = setting(answers[3])
	f.timeoutSetting, f.timeoutErr = setting(answers[4])
}

// quarantine reads the quarantine's marker.
func (f *facts) quarantine(q *questions, key string) {
	if answers := q.ask([]any{"GET", key}); answers != nil && !answers[0].IsNull() {
		f.marker, f.markerErr = answers[0].Text()
	}
}

// field returns the word after name in a line of name=value.
func field(line, name string) string {
	for word := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(word, name); ok {
			return value
		}
	}
	return ""
}

// setting reads the answer to CONFIG GET of one setting.
func setting(a conn.Answer) (string, error) {
	v, err := a.Texts()
	switch {
	case err != nil:
		return "", fmt.Errorf("CONFIG GET: %w", err)
	case len(v) < 2:
		return "", errors.New("CONFIG GET: there is no such setting")
	}
	return v[1], nil
}

// place finds out whether the connection is in the wrong database. What the last one for
// locks has shown counts, too: the pool's next one may be another.
func (f *facts) place(q *questions, n *Node) {
	if question, asks := n.Source.DatabaseQuestion(q.wire, n.UnusedKey); asks {
		if answers := q.ask(question); answers != nil && conn.IsElsewhere(answers[0]) {
			f.astray = n.Source.Misplaced(q.ctx, q.wire, n.UnusedKey)
		}
	}
	if wrong := (*conn.DatabaseError)(nil); errors.As(n.Down(), &wrong) {
		f.astray = wrong
	}
}
