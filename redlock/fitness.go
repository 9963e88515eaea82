package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
)

// Check finds out whether the nodes are fit for Redlock: it looks for misconfigurations that
// cost exclusion or locks, such as a replica, a server given twice, a cache that evicts.
// docs/check.md lists what it looks at and what to do.
//
// It asks every node, on a connection that it borrows for the purpose and that the node's pool
// must have to spare. It waits for all of them, but no longer than eight node timeouts or one
// second, whichever is more. It takes no lock. To find out what the user may do it sets two keys
// and deletes them in the same script: one in the reserved key space, and one outside of it with
// a random name, as a resource's is. What a server does not tell this client is unknown, not an
// error; a server with ACLs may log the refusal.
//
// The report is a snapshot, for people, dashboards and a program's start; nothing in the library
// depends on it. The error is nil unless ctx ends first or the Redlock is closed: nodes that
// cannot be reached are in the report.
func (r *Redlock) Check(ctx context.Context) (Report, error) {
	if err := r.misused(ctx); err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("redlock: check: %w", err)
	}
	if err := r.calls.enter(); err != nil {
		return Report{}, err
	}
	defer r.calls.exit()
	asking, cancel := r.untilClosed(ctx)
	defer cancel()

	all := make([]facts, len(r.nodes))
	var g errgroup.Group
	for i, n := range r.nodes {
		g.Go(func() error {
			all[i] = r.gather(asking, n)
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("redlock: check: %w", err)
	}
	if asking.Err() != nil {
		return Report{}, ErrClosed
	}
	return newReport(r.fitness(), all), nil
}

// fitness is what the findings depend on besides the nodes.
func (r *Redlock) fitness() *fitness {
	return &fitness{
		nodeTimeout: r.defaults.nodeTimeout,
		prefix:      r.defaults.prefix,
		fencing:     r.defaults.fencing,
		polling:     r.defaults.polling,
		quarantine:  r.defaults.quarantine,
		nodes:       len(r.nodes),
	}
}

// untilClosed returns a context that also ends when Close is called.
func (r *Redlock) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.calls.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// facts are what was read of one node. What was not read is empty, with the reason
// in the error beside it.
type facts struct {
	node string

	down  error // why it could not be asked; nothing else is known then
	alive bool  // down, but the connection that locks use is answered

	info     conn.Info
	infoErr  error
	database string // which one is selected
	astray   error  // the connection, or the one that locks would use, is in the wrong database
	fsync    string // appendfsync
	lenient  string // no-appendfsync-on-rewrite
	fsyncErr error

	timeoutSetting string // timeout: after how many seconds it closes an idle connection
	timeoutErr     error

	rtt     time.Duration // the shortest round trip
	offset  time.Duration // of its clock against ours, ± rtt/2; see timeErr
	timeErr error
	probed  bool     // the probe has run
	denials []denial // of what the library needs
	outside string   // why a key outside the reserved key space is refused; empty: it is not

	marker    string // the quarantine's, as it is stored; empty: there is none
	markerErr error
}

// maxSamples is how often the clock is read: the shortest round trip tells most.
const maxSamples = 5

// gather asks one node. It takes no longer than checkLimit.
func (r *Redlock) gather(ctx context.Context, n *node) facts {
	ctx, cancel := context.WithTimeout(ctx, checkLimit(n.timeout))
	defer cancel()
	f := facts{node: n.name}
	w, err := n.spare(ctx)
	if err != nil {
		f.down = err
		f.alive = n.isUp() && n.answers(ctx, r.defaults.prefix)
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
	f.timing(q, n.timeout)
	f.place(q, n)
	f.configuration(q)
	f.guarded(q, r.guard)
	f.rights(q, r.defaults.prefix)
	f.down = q.broken
	return f
}

// spare borrows a connection besides the one that locks use. It takes no longer
// than half of what ctx leaves, so that time remains for answers.
func (n *node) spare(ctx context.Context) (*conn.Wire, error) {
	limit := conn.TimeLeft(ctx) / 2
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := n.source.Borrow(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no connection within %v", brief.Duration(limit))
	}
	return w, err
}

// answers reports whether the connection that locks use is answered.
func (n *node) answers(ctx context.Context, prefix string) bool {
	cmd := inspectCommand(checkKey(prefix))
	out := n.call(ctx, cmd, n.timeout)
	return out.err == nil || conn.IsReply(out.err)
}

// questions asks on a borrowed connection until it breaks.
type questions struct {
	ctx    context.Context //nolint:containedctx // It bounds the questions, and lives as long.
	wire   *conn.Wire
	broken error // the connection is of no use any more
}

var errLate = errors.New("no reply in time")

// ask sends the commands together. There are as many answers, unless the
// connection breaks: then none.
func (q *questions) ask(commands ...[]any) []conn.Answer {
	if q.broken != nil {
		return nil
	}
	if q.broken = q.wire.SendAll(commands); q.broken != nil {
		return nil
	}
	answers := make([]conn.Answer, len(commands))
	for i := range answers {
		reply, err := q.wire.Receive(0) // It is aborted when ctx ends, and not before.
		if err != nil && !conn.IsReply(err) {
			if q.ctx.Err() != nil {
				err = errLate
			}
			q.broken = fmt.Errorf("%v: %w", commands[i][0], err)
			return nil
		}
		answers[i] = conn.Answer{Reply: reply, Err: err}
	}
	return answers
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

// guarded reads the quarantine's marker.
func (f *facts) guarded(q *questions, g *guard) {
	if g == nil {
		return
	}
	if answers := q.ask([]any{"GET", g.marker}); answers != nil {
		if !answers[0].IsNull() {
			f.marker, f.markerErr = answers[0].Text()
		}
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
func (f *facts) place(q *questions, n *node) {
	if question, asks := n.source.DatabaseQuestion(q.wire, n.unusedKey()); asks {
		if answers := q.ask(question); answers != nil && conn.IsElsewhere(answers[0]) {
			f.astray = n.source.Misplaced(q.ctx, q.wire, n.unusedKey())
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if wrong := (*conn.DatabaseError)(nil); errors.As(n.down, &wrong) {
		f.astray = wrong
	}
}
