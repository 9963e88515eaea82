package simulation

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A simRequest is a request that is about to run on a node.
type simRequest struct {
	script string
	cmd    string // EVAL, EVALSHA, or SET or DELEX of a request without its script
	args   []string
	token  string // if the request is about a token
}

// simScripts has all scripts, by name, and by what they are asked for with.
var simScripts = func() map[string]*node.Script {
	by := map[string]*node.Script{"look": node.Look, "probe": node.Probe, "run": quarantine.RunScript, "admit": quarantine.AdmitScript}
	files, err := filepath.Glob("../../redlock/scripts/*.lua")
	for _, file := range files {
		text, failed := os.ReadFile(file)
		err = errors.Join(err, failed)
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		by[name] = node.NewScript(name, node.Code(string(text)), nil)
	}
	if err != nil {
		panic(err)
	}
	for _, script := range slices.Collect(maps.Values(by)) {
		by[script.Hash.(string)], by[script.Source.(string)] = script, script
	}
	return by
}()

// sets reports whether the request may set a key.
func (req *simRequest) sets() bool {
	return slices.Contains([]string{"lock", "fencedLock", "queue", "fencedQueue", "repair"}, req.script)
}

// observe sees every command just before it runs on the node.
func (n *simNode) observe(cmd string, args []string) {
	s := n.s
	req := readRequest(cmd, args)
	if req == nil {
		return
	}
	if req.script == "" && !s.guarded { // Quarantine has texts of its own.
		s.failf("%s was sent what is no request: %s %q", n.Name(), cmd, args)
		return
	}
	s.mu.Lock()
	if s.verbose {
		s.traceLocked("    %s <- %s %.24q", n.Name(), req.script, req.args[1:])
	}
	n.noteArrival(req)
	s.mu.Unlock()
	if s.onRequest != nil {
		s.onRequest(n, req)
	}
}

// readRequest returns nil for what is not about keys: commands of handshakes and subscriptions.
func readRequest(cmd string, args []string) *simRequest {
	req := &simRequest{cmd: cmd, args: args}
	switch {
	case cmd == "SET" && len(args) > 2:
		req.script, req.token = "lock", args[1]
	case cmd == "DELEX" && len(args) == 3 && args[2] != "":
		req.script, req.token = "unlock", args[2]
	case (cmd == "EVAL" || cmd == "EVALSHA") && len(args) > 1:
		if script := simScripts[args[0]]; script != nil {
			req.script = script.Name
		}
		if count, err := strconv.Atoi(args[1]); err == nil && count+2 < len(args) {
			req.token = args[count+2]
		}
	default:
		return nil
	}
	return req
}

// simRequests is what a node knows of requests that come late or again.
type simRequests struct {
	seen   int                     // requests that may come again
	copies map[string]int          // of each, that are sent again
	tokens map[string]*simArrivals // by token
}

// simArrivals is what has arrived about a token.
type simArrivals struct {
	released time.Time // when a release came first
	set      time.Time // when one that may set the keys came behind it last
}

// noteArrival learns from a request whether it has come late: behind a release of its token.
func (n *simNode) noteArrival(req *simRequest) {
	q := &n.requests
	if q.tokens == nil {
		q.tokens, q.copies = map[string]*simArrivals{}, map[string]int{}
	}
	a := q.tokens[req.token]
	if a == nil {
		a = &simArrivals{}
		q.tokens[req.token] = a
	}
	switch {
	case (req.script == "unlock" || req.script == "undo") && a.released.IsZero():
		a.released = time.Now()
	case req.sets() && !a.released.IsZero():
		a.set = time.Now()
	}
}

// mayHave reports whether a late request may have set a token's keys behind its release: just now, or for one ttl where
// nobody repeats the release. That is repeated from the answer to the first one on, in gaps that double, which takes two
// round trips, and as many if others are under way.
func (n *simNode) mayHave(token string) bool {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	a := n.requests.tokens[token]
	if a == nil || a.set.IsZero() {
		return false
	}
	late, trips := a.set.Sub(a.released), 4*(n.delays[0]+n.delays[1])+time.Millisecond
	c := s.owners[token]
	closed := c != nil && !c.closing.IsZero() && !s.strangers && a.set.After(c.closing.Add(-n.settle()))
	return closed || late > node.MinLate || time.Now().Before(a.set.Add(late+20*time.Millisecond+trips))
}

// sendAgain has a request run once more, at a random moment, if it was not too often. TCP duplicates nothing within a
// connection, so it runs on another one, and its answer is thrown away. s.mu is held.
func (n *simNode) sendAgain(req *simRequest, oneOf, most int, latest time.Duration) {
	s, q, same := n.s, &n.requests, strings.Join(req.args, " ")
	q.seen++
	rng := rand.New(rand.NewPCG(s.seed, uint64(len(s.nodes)*q.seen)<<16+uint64(n.index)))
	if rng.IntN(oneOf) > 0 || q.copies[same] >= most {
		return
	}
	q.copies[same]++
	after := testkit.Magnitude(rng, time.Millisecond, latest)
	s.again.Go(func() {
		time.Sleep(after)
		s.tracef("%s gets a request again: %s", n.Name(), req.script)
		n.send(time.Minute, req.cmd, redis.Args{}.AddFlat(req.args)...)
	})
}

// send sends a request on a connection of its own, without regard to the answer.
func (n *simNode) send(patience time.Duration, cmd string, args ...any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.s.t.Context()), patience)
	defer cancel()
	conn, err := n.Conn(ctx, redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Do(cmd, args...)
}
