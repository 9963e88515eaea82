// Package quarantine keeps a node that has restarted from voting until every lock that it may have forgotten has ended.
// It wraps each script that grants, whatever the script does, in one that first looks at the marker of the node's run.
// A node sends the wrapped scripts because of its [Dialect].
//
// It knows the marker, the runs of a server and maxTTL. It does not know what a script grants, nor
// how many votes make a lock.
package quarantine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
)

// A node that restarts without its data could vote for a second holder while the first one still counts on it. So with
// WithQuarantine it abstains until every lock that it may have forgotten has ended. The node itself ensures that, in
// the scripts that grant, by a marker with the run of the server; see check.lua. Extensions and releases do not
// abstain: they create nothing.
//
// How long it abstains: a lock's Until lies at most maxTTL after its last extension was sent, on the client's clock,
// with drift already subtracted. The margin is for the node's clock, which counts in whole milliseconds, and may run
// faster than the client's by more than the drift factor covers.

const (
	// Mark ends the marker's key.
	Mark = "q"

	// Margin is how much longer than maxTTL the quarantine lasts.
	Margin = time.Second

	// MaxTTL bounds maxTTL: a longer one is given in the wrong unit.
	MaxTTL = 30 * 24 * time.Hour
)

var (
	// ErrQuarantined is matched by the vote of a node that is in quarantine.
	ErrQuarantined = errors.New("redlock: node in quarantine")

	// ErrConfigMismatch is matched by the vote of a node that is set up for other numbers of nodes.
	ErrConfigMismatch = errors.New("redlock: node set up for another number of nodes")
)

// A Dialect is the part of quarantine in the scripts that grant: a [link.Dialect]. Its values are boxed, for redigo.
type Dialect struct {
	marker, nodes, maxTTL any

	last    []any // the arguments of a script that grants
	scripts *Scripts
}

// New returns the dialect of clients with that many nodes. marker is the marker's key, and maxTTL the longest ttl of
// their locks.
func New(marker string, nodes int, maxTTL time.Duration, s *Scripts) *Dialect {
	d := &Dialect{
		marker: marker, nodes: strconv.Itoa(nodes), maxTTL: (maxTTL + time.Millisecond - 1).Milliseconds(), scripts: s,
	}
	d.last = []any{"0", d.nodes, d.maxTTL}
	return d
}

// Marker returns the marker's key.
func (d *Dialect) Marker() string { return d.marker.(string) }

// A ConnDialect is the dialect on one connection, for the run of the server that the handshake has met.
type ConnDialect struct {
	*Dialect

	fast map[*node.Script]*node.Script // nil: fast texts must not be used; see Scripts.Fast

	// Why the node last abstained, if it did, and until when. The link's mutex guards both.
	abstained error
	until     time.Time
}

// Fast returns the fast text of a script; nil if none is used on this connection.
func (d *ConnDialect) Fast(s *node.Script) *node.Script { return d.fast[s] }

// Key returns the marker's key.
func (d *ConnDialect) Key() any { return d.marker }

// Args returns the last arguments of a script that grants.
func (d *ConnDialect) Args() []any { return d.last }

// Script returns the script to send. If it is sent by its source (eval), or the server has forgotten its scripts, that
// is the form that looks at the run.
func (d *ConnDialect) Script(s *node.Script, eval, forgot bool) *node.Script {
	if fast := d.fast[s]; fast != nil && !eval && !forgot {
		return fast
	}
	return d.scripts.Slow(s)
}

// Questions look at the server's run and at the marker, and load the scripts that grant.
func (d *Dialect) Questions() [][]any {
	commands := [][]any{{"INFO", "server"}, lookCommand(d.scripts.slow[d.scripts.granting[0]], d)}
	for _, s := range d.scripts.slow {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Source})
	}
	return commands
}

// Learn makes a new connection's server learn the fast texts of the scripts that grant, once the questions have been
// answered. A refusal by the server is not fatal: the scripts will report it when they are needed, and extensions and
// releases do not need them.
func (d *Dialect) Learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (node.ConnDialect, error) {
	c := &ConnDialect{Dialect: d}
	text, _ := answers[0].Reply.([]byte)
	info := conn.ParseInfo(string(text))
	if answers[1].Err == nil {
		c.Heard(d.scripts.granting[0].Decode(answers[1].Reply), time.Now())
	}
	version, _ := conn.Major(info["redis_version"])
	if answers[1].Err != nil || version < 7 || info.Run() == "" {
		return c, nil
	}
	fast := d.scripts.Fast(info.Run(), d.marker.(string), d.nodes.(string))
	var second [][]any
	for _, s := range fast {
		second = append(second, lookCommand(s, d))
	}
	answers, err := w.Exchange(ctx, second)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.Err != nil {
			return c, nil
		}
	}
	c.fast = fast
	return c, nil
}

// Heard notes whether the node has abstained. The link's mutex is held, unless the handshake still goes on.
func (d *ConnDialect) Heard(out node.Outcome, now time.Time) {
	switch {
	case out.Abstained:
		d.abstained, d.until = out.Err, now.Add(out.Holder.TTL)
	case out.Stance != node.Silent:
		d.abstained = nil
	}
}

// Abstains returns why the node grants no lock at present, as far as is known; nil if it does. The link's mutex is
// held.
func (d *ConnDialect) Abstains(now time.Time) error {
	switch left := d.until.Sub(now); {
	case !errors.Is(d.abstained, ErrQuarantined):
		return d.abstained
	case left > 0:
		return &quarantineError{left}
	default:
		return nil
	}
}

// A quarantineError is the vote of a node in quarantine.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string { return "quarantined for another " + brief.Duration(e.left) }

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantined }

// A mismatchError is the vote of a node that is set up for other numbers of nodes.
type mismatchError struct{ Marker }

func (e *mismatchError) Error() string {
	return fmt.Sprintf("the node is set up for clients with %s; see Admit", e.Sizes())
}

func (e *mismatchError) Is(target error) bool { return target == ErrConfigMismatch }

// Admit ends the quarantine of a node in its current run only: a request may be delivered late, when the caller has
// been told that it failed, and must not admit a later run.
func (d *Dialect) Admit(ctx context.Context, n *link.Link, timeout time.Duration) error {
	run := n.Call(ctx, node.Command{Script: RunScript}, timeout)
	if run.Err != nil {
		return run.Err
	}
	admit := node.Command{Script: AdmitScript, Keys: []any{d.marker}, Args: []any{run.Value, d.nodes, d.maxTTL}}
	return n.Call(ctx, admit, timeout).Err
}
