package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A node that restarts without its data votes again, for a second holder while the first
// one still counts on it. So with WithQuarantine it abstains until every lock that it may
// have forgotten has ended. The node itself sees to that, in the scripts that grant, with
// a marker that names the run of the server; see quarantineLua. Extensions and releases
// do not abstain: they create nothing.
//
// For how long: a lock's Until lies at most maxTTL after its last extension was sent,
// on the client's clock, and drift is already off it. The margin is for the node's
// clock, which counts in whole milliseconds, and may run faster than the client's by
// what the drift factor does not cover.

const (
	// quarantineMargin is what the quarantine is longer than maxTTL.
	quarantineMargin = time.Second

	// maxQuarantine bounds maxTTL: what is longer is a mistake of units.
	maxQuarantine = 30 * 24 * time.Hour

	// guardMark is the marker's key.
	guardMark = "q"
)

// A guard is what the scripts that grant are given of the quarantine. Boxed, for redigo.
type guard struct {
	marker, nodes, maxTTL any

	last []any // the arguments of a script that grants
}

// newGuard returns nil without quarantine.
func newGuard(o *options, nodes int) *guard {
	if o.quarantine == 0 {
		return nil
	}
	g := &guard{
		marker: o.prefix + reservedMark + guardMark,
		nodes:  strconv.Itoa(nodes),
		maxTTL: serverMillis(o.quarantine),
	}
	g.last = grantArgs(g)
	return g
}

// A runGuard is the guard on one connection: for the run of the server that the
// handshake has met.
type runGuard struct {
	*guard

	fast map[*node.Script]*node.Script // nil: its texts are not to be used; see fastScripts

	// Why the node has last abstained, if it has, and until when. Guarded by node.mu.
	abstained error
	until     time.Time
}

func (g *runGuard) Key() any { return g.marker }

func (g *runGuard) Args() []any { return g.last }

// script is the one to send: by its source if eval, and then, or if the server has
// forgotten its scripts, one that looks at the run.
func (g *runGuard) Script(s *node.Script, eval, forgot bool) *node.Script {
	if g.fast == nil || eval || forgot {
		return slowScripts[s]
	}
	return g.fast[s]
}

// questions look at the server's run and at the marker, and have it know the scripts that
// grant.
func (g *guard) Questions() [][]any {
	commands := [][]any{{"INFO", "server"}, lookCommand(slowScripts[lockScript], g)}
	for _, s := range slowScripts {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Source})
	}
	return commands
}

// learn has a new connection's server learn the fast texts of the scripts that grant,
// once the questions have been answered. What the server refuses is not fatal: the
// scripts will say so when they are needed, and extensions and releases do not need them.
func (all *guard) Learn(ctx context.Context, w *conn.Wire, answers []conn.Answer) (node.ConnDialect, error) {
	g := &runGuard{guard: all}
	text, _ := answers[0].Reply.([]byte)
	info := conn.ParseInfo(string(text))
	if answers[1].Err == nil {
		g.Heard(lockScript.Decode(answers[1].Reply), time.Now())
	}
	version, _ := conn.Major(info["redis_version"])
	if answers[1].Err != nil || version < 7 || info.Run() == "" {
		return g, nil
	}
	fast := fastScripts(info.Run(), g.marker.(string), g.nodes.(string))
	var second [][]any
	for _, s := range fast {
		second = append(second, lookCommand(s, all))
	}
	answers, err := w.Exchange(ctx, second)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.Err != nil {
			return g, nil
		}
	}
	g.fast = fast
	return g, nil
}

// heard notes whether the node has abstained. node.mu is held, unless the handshake still
// goes on.
func (g *runGuard) Heard(out node.Outcome, now time.Time) {
	switch {
	case out.Abstained:
		g.abstained, g.until = out.Err, now.Add(out.HolderTTL)
	case out.Stance != node.Silent:
		g.abstained = nil
	}
}

// abstains returns why the node grants no lock at present, as far as is known; nil if it
// may. node.mu is held.
func (g *runGuard) Abstains(now time.Time) error {
	switch left := g.until.Sub(now); {
	case !errors.Is(g.abstained, ErrQuarantined):
		return g.abstained
	case left > 0:
		return &quarantineError{left}
	default:
		return nil
	}
}

// A quarantineError is the vote of a node in quarantine.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string { return fmt.Sprintf("quarantined for another %v", e.left) }

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantined }

// A mismatchError is the vote of a node that is set up for another number of nodes.
type mismatchError struct{ nodes int64 }

func (e *mismatchError) Error() string {
	return fmt.Sprintf("the node is set up for clients with %d nodes; see Admit", e.nodes)
}

func (e *mismatchError) Is(target error) bool { return target == ErrConfigMismatch }

// Admit ends the quarantine of the named nodes and has them adopt this client's number of nodes
// and maxTTL, also a maxTTL that is smaller than what they have heard of. From then on they
// grant locks. It is for an operator who knows that no lock is held that those nodes have
// forgotten: for a new cluster, after a restart of a node that keeps its data, or after a change
// of the number of nodes; see docs/operations.md. Admitted too early, a node can let a second
// holder in. A larger maxTTL takes no Admit.
//
// The nodes are given by their names; there is no way to say "all". The call fails before any
// I/O if a name is none of New's, if none is given, or without WithQuarantine. Otherwise it asks
// every named node, and waits up to twice the node timeout.
//
// nil means that all of them have done it. The error names those that have not, or that did not
// say so; the call may be repeated. It also matches the context's error, if that ended first; it
// is ErrClosed after Close. A node is admitted only in the run of its server in which Admit has
// met it, also if the node carries out the request late.
func (r *Redlock) Admit(ctx context.Context, nodes ...string) error {
	if err := r.misused(ctx); err != nil {
		return err
	}
	if r.defaults.quarantine == 0 {
		return errors.New("redlock: admit: the Redlock has no WithQuarantine")
	}
	if len(nodes) == 0 {
		return errors.New("redlock: admit: no nodes")
	}
	named := make([]*node.Node, len(nodes))
	for i, name := range nodes {
		at := slices.IndexFunc(r.nodes, func(n *node.Node) bool { return n.Name == name })
		if at < 0 {
			return fmt.Errorf("redlock: admit: no node is named %q", name)
		}
		named[i] = r.nodes[at]
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: admit: %w", err)
	}
	if err := r.calls.enter(); err != nil {
		return err
	}
	defer r.calls.exit()
	failed := make([]error, len(named))
	var g errgroup.Group
	for i, n := range named {
		g.Go(func() error {
			if err := r.guard.admit(ctx, n, r.defaults.nodeTimeout); err != nil {
				failed[i] = fmt.Errorf("redlock: admit: %s: %w", n.Name, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		failed = append(failed, fmt.Errorf("redlock: admit: %w", err))
	}
	return errors.Join(failed...)
}

// admit is for the run that the node is in now: a request that is delivered late, when
// the caller has been told that it failed, must not admit a later one.
func (g *guard) admit(ctx context.Context, n *node.Node, timeout time.Duration) error {
	run := n.Call(ctx, runCommand(), timeout)
	if run.Err != nil {
		return run.Err
	}
	out := n.Call(ctx, admitCommand(g, run.Value), timeout)
	if out.Stance == node.No {
		return errors.New("it has restarted meanwhile")
	}
	return out.Err
}
