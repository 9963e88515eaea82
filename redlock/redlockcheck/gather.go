package redlockcheck

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	// minLimit is the least time for the questions to one node, and maxTrips how many node timeouts they may take
	// otherwise: they must get through if a round trip takes longer than the node timeout, to report that.
	minLimit = time.Second
	maxTrips = 8

	// maxSamples is how often the clock is read: the shortest round trip is the most accurate.
	maxSamples = 5
)

// facts are what was read of one node. A field that was not read is empty, and the error beside it says why.
type facts struct {
	node string

	down  error // why the node could not be asked; nothing else is known then
	spent bool  // all connections that its pool may have were in use

	info     conn.Info
	infoErr  error
	database string // which one is selected
	astray   error  // the connection is in the wrong database
	fsync    string // appendfsync
	lenient  string // no-appendfsync-on-rewrite
	fsyncErr error

	save, protected string // save, protected-mode

	defaults    map[string]string // what ACL GETUSER says of the default user
	defaultsErr error
	issued      *x509.Certificate // the first to expire of those that it shows; nil: without TLS, or unknown

	timeoutSetting string // after how many seconds the server closes an idle connection
	timeoutErr     error

	rtt     time.Duration // the shortest round trip
	offset  time.Duration // how far its clock is ahead of ours, ± rtt/2; see timeErr
	timeErr error
	probed  bool     // the probe has run
	denials []denial // the commands that the library needs and was denied
	outside string   // why a key outside the reserved key space is refused; empty: it is not

	undeclaredKeys string // why scripts may use no key that they were not given; empty: they may

	marker    string // the quarantine's marker as it is stored; empty: there is none
	markerErr error

	sets string // the node's answer to sets.Question
}

// gather asks one node.
func (s *survey) gather(ctx context.Context, n redlock.Node) facts {
	limit := max(maxTrips*s.NodeTimeout, minLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	source := conn.NewSource(n.Pool)
	f := facts{node: n.Name, spent: source.IsSpent()}
	borrowing, stop := context.WithTimeout(ctx, limit/2) // The rest of the time is for answers.
	defer stop()
	w, err := source.Borrow(borrowing)
	if err != nil && borrowing.Err() != nil {
		err = fmt.Errorf("no connection within %v", brief.Duration(limit/2))
	}
	if err != nil {
		f.down = err
		return f
	}
	unwatch := context.AfterFunc(ctx, w.Abort)
	defer func() {
		// Always aborted: the connection is subscribed, and of no use to its pool.
		unwatch()
		w.Abort()
		w.GiveBack()
	}()
	q := &questions{ctx: ctx, wire: w}
	if q.broken = w.Err(); q.broken == nil {
		q.broken = w.Abortable(ctx)
	}
	f.issued = source.Certificate(ctx, w)
	f.timing(q, s.NodeTimeout)
	f.place(q, source, s.Space+"none:"+tokens.New()[:16])
	f.configuration(q)
	if answers := q.ask([]any{"GET", s.marker()}, sets.Question(s.Space)); answers != nil {
		if !answers[0].IsNull() {
			f.marker, f.markerErr = answers[0].Text()
		}
		f.sets, _ = answers[1].Text() // It is empty if the server refuses.
	}
	f.undeclared(q, s.key())
	// The key is like a resource's, but ends with 128 random bits, so nobody uses it. Locking one of the user's
	// resources instead would get in somebody's way.
	f.rights(q, s.key(), s.channel(), s.Prefix+"redlock-check:"+tokens.New())
	f.down = q.broken
	return f
}

// questions asks questions on a borrowed connection until it breaks.
type questions struct {
	ctx    context.Context //nolint:containedctx // It bounds the questions, and lives as long.
	wire   *conn.Wire
	broken error // why the connection is of no use any more
}

// errNoReply is the error of a connection on which no reply has come for as long as a node may be asked.
var errNoReply = errors.New("no reply in time")

// ask sends the commands together. It returns as many answers, or none if the connection breaks.
func (q *questions) ask(commands ...[]any) []conn.Answer {
	if q.broken == nil {
		q.broken = q.wire.SendAll(commands)
	}
	if q.broken != nil {
		return nil
	}
	answers := make([]conn.Answer, len(commands))
	for i := range answers {
		reply, err := q.wire.Receive(0) // The end of ctx aborts it.
		if err != nil && !conn.IsReply(err) {
			if q.ctx.Err() != nil {
				err = errNoReply
			}
			q.broken = fmt.Errorf("%v: %w", commands[i][0], err)
			return nil
		}
		answers[i] = conn.Answer{Reply: reply, Err: conn.WithoutArguments(err)}
	}
	return answers
}

// timing measures the round trip and the clock a few times, but not for much longer than the node timeout.
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
		at, err := serverTime(answers[0])
		f.offset, f.timeErr = at.Sub(sent.Add(rtt/2).Round(0)), err // By the wall clock.
	}
}

// serverTime reads the answer to TIME.
func serverTime(a conn.Answer) (time.Time, error) {
	v, err := a.Numbers()
	if err == nil && len(v) != 2 {
		err = errors.New(brief.Count(len(v), "value"))
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("TIME: %w", err)
	}
	return time.Unix(v[0], v[1]*1000), nil
}

// place finds out whether the connection is in the wrong database. unused is a key that never exists.
func (f *facts) place(q *questions, source *conn.Source, unused string) {
	if question, asks := source.DatabaseQuestion(q.wire, unused); asks {
		if answers := q.ask(question); answers != nil && conn.IsElsewhere(answers[0]) {
			f.astray = source.Misplaced(q.ctx, q.wire, unused)
		}
	}
}

// configuration reads how the server is set up.
func (f *facts) configuration(q *questions) {
	answers := q.ask(
		[]any{"INFO"},
		[]any{"CLIENT", "INFO"},
		[]any{"CONFIG", "GET", "appendfsync"},
		[]any{"CONFIG", "GET", "no-appendfsync-on-rewrite"},
		[]any{"CONFIG", "GET", "timeout"},
		[]any{"INFO", "server"}, // This may be all of INFO that is granted.
		[]any{"CONFIG", "GET", "save"},
		[]any{"CONFIG", "GET", "protected-mode"},
		[]any{"ACL", "GETUSER", "default"},
	)
	if answers == nil {
		return
	}
	text, err := answers[0].Text()
	if err != nil {
		f.infoErr = fmt.Errorf("INFO: %w", err)
		text, _ = answers[5].Text()
	}
	f.info = conn.ParseInfo(text)
	client, _ := answers[1].Text()
	f.database = field(client, "db=")
	f.fsync, f.fsyncErr = setting(answers[2])
	f.lenient, _ = setting(answers[3])
	f.timeoutSetting, f.timeoutErr = setting(answers[4])
	f.save, _ = setting(answers[6])
	f.protected, _ = setting(answers[7])
	f.defaults, f.defaultsErr = answers[8].Fields()
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
	if err == nil && len(v) < 2 {
		err = errors.New("there is no such setting")
	}
	if err != nil {
		return "", fmt.Errorf("CONFIG GET: %w", err)
	}
	return v[1], nil
}
