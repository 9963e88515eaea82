// Package quarantine keeps a node that has restarted from voting until every lock that it may
// have forgotten has ended. It wraps each script that grants, whatever it does, in one that first
// looks at the marker of the node's run. A node sends the wrapped scripts because of its [Dialect].
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

// A node that restarts without its data votes again, for a second holder while the first one still counts on it. So
// with WithQuarantine it abstains until every lock that it may have forgotten has ended. The node itself sees to
// that, in the scripts that grant, with a marker that names the run of the server; see check.lua. Extensions and
// releases do not abstain: they create nothing.
//
// For how long: a lock's Until lies at most maxTTL after its last extension was sent, on the client's clock, and
// drift is already off it. The margin is for the node's clock, which counts in whole milliseconds, and may run faster
// than the client's by what the drift factor does not cover.

const (
	// Mark ends the marker's key.
	Mark = "q"

	// Margin is what the quarantine is longer than maxTTL.
	Margin = time.Second

	// MaxTTL bounds maxTTL: what is longer is a mistake of units.
	MaxTTL = 30 * 24 * time.Hour
)

var (
	// ErrQuarantined is matched by the vote of a node that is in quarantine.
	ErrQuarantined = errors.New("redlock: node in quarantine")

	// ErrConfigMismatch is matched by that of a node that is set up for other numbers of nodes.
	ErrConfigMismatch = errors.New("redlock: node set up for another number of nodes")
)

// A Dialect is what quarantine gives to the scripts that grant: a [link.Dialect]. Boxed, for redigo.
type Dialect struct {
	marker, nodes, maxTTL any

	last    []any // the arguments of a script that grants
	scripts *Scripts
}

// New returns the dialect of clients with so many nodes. marker is the marker's key, and maxTTL
// the longest ttl of their locks.
func New(marker string, nodes int, maxTTL time.Duration, s *Scripts) *Dialect {
	d := &Dialect{
		marker: marker, nodes: strconv.Itoa(nodes), maxTTL: (maxTTL + time.Millisecond - 1).Milliseconds(), scripts: s,
	}
	d.last = []any{"0", d.nodes, d.maxTTL}
	return d
}

// Marker is the marker's key.
func (d *Dialect) Marker() string { return d.marker.(string) }

// A ConnDialect is the dialect on one connection: for the run of the server that the handshake has met.
type ConnDialect struct {
	*Dialect

	fast map[*node.Script]*node.Script // nil: its texts are not to be used; see Scripts.Fast

	// Why the node has last abstained, if it has, and until when. Guarded by the link's mutex.
	abstained error
	until     time.Time
}

// Fast is the fast text of a script; nil if none is used on this connection.
func (d *ConnDialect) Fast(s *node.Script) *node.Script { return d.fast[s] }

// Key is the marker's.
func (d *ConnDialect) Key() any { return d.marker }

// Args are those of a script that grants.
func (d *ConnDialect) Args() []any { return d.last }

// Script is the script to send. It is sent by its source if eval. Then, or if the server has
// forgotten its scripts, it is the form that looks at the run.
func (d *ConnDialect) Script(s *node.Script, eval, forgot bool) *node.Script {
	if fast := d.fast[s]; fast != nil && !eval && !forgot {
		return fast
	}
	return d.scripts.Slow(s)
}

// Questions look at the server's run and at the marker, and have it know the scripts that grant.
func (d *Dialect) Questions() [][]any {
	commands := [][]any{{"INFO", "server"}, lookCommand(d.scripts.slow[d.scripts.granting[0]], d)}
	for _, s := range d.scripts.slow {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Source})
	}
	return commands
}

// Learn has a new connection's server learn the fast texts of the scripts that grant,
// once the questions have been answered. What the server refuses is not fatal: the
// scripts will say so when they are needed, and extensions and releases do not need them.
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

// Abstains returns why the node grants no lock at present, as far as is known; nil if it
// may. The link's mutex is held.
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

// Admit ends the quarantine of a node. It is for the run that the node is in now: a request may be
// delivered late, when the caller has been told that it failed, and must not admit a later run.
func (d *Dialect) Admit(ctx context.Context, n *link.Link, timeout time.Duration) error {
	run := n.Call(ctx, node.Command{Script: RunScript}, timeout)
	if run.Err != nil {
		return run.Err
	}
	admit := node.Command{Script: AdmitScript, Keys: []any{d.marker}, Args: []any{run.Value, d.nodes, d.maxTTL}}
	return n.Call(ctx, admit, timeout).Err
}
