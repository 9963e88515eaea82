package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A node that restarts without its data votes again, for a second holder while the first
// one still counts on it. So with WithQuarantine it abstains until every lock that it may
// have forgotten has ended. The node itself sees to that, in the scripts that grant, with
// a marker that names the run of the server; see guardLua. Extensions and releases do not
// abstain: they create nothing.
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
	marker, fingerprint, span any
}

// newGuard returns nil without quarantine.
func newGuard(o *options, nodes int) *guard {
	if o.quarantine == 0 {
		return nil
	}
	return &guard{
		marker:      o.prefix + reservedMark + guardMark,
		fingerprint: fingerprint(nodes, o.quarantine),
		span:        serverMillis(o.quarantine + quarantineMargin),
	}
}

// fingerprint is what all clients of a node must agree on: quorums of different
// numbers of nodes need not meet, and a shorter maxTTL ends a quarantine too early.
func fingerprint(nodes int, maxTTL time.Duration) string {
	return fmt.Sprintf("%d nodes, maxTTL %v", nodes, maxTTL)
}

// A runGuard is the guard for one run of the server.
type runGuard struct {
	*guard

	scripts map[*script]*script
	always  bool // the server's scripts may outlive it: the run is looked up each time
}

// check is the argument of the same name, boxed; see guardLua.
func (g *runGuard) check(eval bool) any {
	if eval || g.always {
		return "1"
	}
	return "0"
}

// lookAtRun asks a new connection's server for its run; nil without quarantine. If the
// server does not tell, the scripts have to look it up, and say what is wrong.
func (n *node) lookAtRun(ctx context.Context, conn *wire) (*runGuard, error) {
	if n.guard == nil {
		return nil, nil
	}
	if err := conn.Send("INFO", "server"); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	reply, err := conn.receive(left(ctx))
	if err != nil && !isReply(err) {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	text, _ := reply.([]byte)
	info := infoFields(string(text))
	run := info["run_id"]
	if !isHex(run) {
		run = "unknown"
	}
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	return &runGuard{n.guard, guardedScripts(run), version < 7 || run == "unknown"}, nil
}

// load has the server learn a script. One that is guarded is not just loaded; see
// guardLua.
func (n *node) load(conn *wire, run *runGuard, s *script) error {
	if run == nil || !s.session {
		return conn.Send("SCRIPT", "LOAD", s.sourceArg)
	}
	return conn.Send("EVAL", run.scripts[s].sourceArg, 1, run.marker, "load", run.fingerprint, run.span)
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

// A quarantineError is the vote of a node in quarantine.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string { return fmt.Sprintf("quarantined for another %v", e.left) }

func (e *quarantineError) Is(target error) bool { return target == ErrQuarantined }

// Admit ends the quarantine of the named nodes and has them adopt this client's number of
// nodes and maxTTL. From then on they grant locks. It is for an operator who knows that
// no lock is held that those nodes have forgotten: for a new cluster, after a restart of
// a node that keeps its data, or after a change of the configuration; see
// docs/operations.md. Admitted too early, a node can let a second holder in.
//
// The nodes are called by their names, and there is no way to say "all". It fails before
// any I/O if a name is none of New's, none is given, or there is no WithQuarantine.
// Otherwise it asks every named node, and waits up to the node timeout; nil means that
// all of them have done it. The error names those that have not, or of which that is not
// known; it may be repeated. The context's error, or ErrClosed, if that ended it first.
func (r *Redlock) Admit(ctx context.Context, nodes ...string) error {
	if r.defaults.quarantine == 0 {
		return errors.New("redlock: admit: the Redlock has no WithQuarantine")
	}
	if len(nodes) == 0 {
		return errors.New("redlock: admit: no nodes")
	}
	named := make([]*node, len(nodes))
	for i, name := range nodes {
		at := slices.IndexFunc(r.nodes, func(n *node) bool { return n.name == name })
		if at < 0 {
			return fmt.Errorf("redlock: admit: no node is named %q", name)
		}
		named[i] = r.nodes[at]
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: admit: %w", err)
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.exit()
	failed := make([]error, len(named))
	var g errgroup.Group
	for i, n := range named {
		g.Go(func() error {
			cmd := command{script: admitScript, keys: []any{n.guard.marker}, argv: []any{n.guard.fingerprint}}
			if out := n.call(ctx, cmd, r.defaults.nodeTimeout); out.err != nil {
				failed[i] = fmt.Errorf("redlock: admit: %s: %w", n.name, out.err)
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
