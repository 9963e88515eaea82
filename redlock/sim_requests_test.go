package redlock

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/node"
)

// A simRequest is a request that is about to run on a node.
type simRequest struct {
	script     *node.Script
	cmd        string // EVAL or EVALSHA
	args       []string
	keys, argv []string
	token      string // if the request is about a token
}

// simScripts has all scripts, by what they are asked for with.
var simScripts = func() map[string]*node.Script {
	by := map[string]*node.Script{}
	for _, script := range append([]*node.Script{node.Tombstone}, handshakeScripts...) {
		by[script.Hash.(string)] = script
		by[script.Source.(string)] = script
	}
	return by
}()

// simLockArgs has how many arguments a lock request has besides its keys.
var simLockArgs = map[*node.Script]int{lockScript: 5, fencedLockScript: 7, queueScript: 9, fencedQueueScript: 11}

// sets reports whether the request may set a key.
func (req *simRequest) sets() bool { return simLockArgs[req.script] > 0 || req.script == repairScript }

// observe sees every command just before it runs on the node. It learns which client each
// token belongs to, failed attempts included.
func (n *simNode) observe(cmd string, args []string) {
	if cmd != "EVALSHA" && cmd != "EVAL" || len(args) < 2 {
		return
	}
	s := n.s
	req := &simRequest{script: simScripts[args[0]], cmd: cmd, args: args}
	if req.script == nil {
		if !s.guarded { // Quarantine has texts of its own.
			s.failf("%s was sent an unknown script: %q", n.Name(), args)
		}
		return
	}
	count, err := strconv.Atoi(args[1])
	if err != nil || count < 0 || len(args) < count+2 {
		s.failf("%s was sent a malformed request: %q", n.Name(), args)
		return
	}
	req.keys, req.argv = args[2:count+2], args[count+2:]
	if len(req.argv) > 0 {
		req.token = req.argv[0]
	}
	if !n.note(req) {
		s.failf("%s was sent a malformed lock request: %q", n.Name(), args)
	} else if s.onRequest != nil {
		s.onRequest(n, req)
	}
}

// note enters a request; false if it is malformed.
func (n *simNode) note(req *simRequest) bool {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verbose {
		s.traceLocked("    %s <- %s %q", n.Name(), req.script.Name, shorten(req.args[1:]))
	}
	if !s.noteOwner(req) {
		return false
	}
	if s.late || s.strangers {
		n.noteArrival(req)
	}
	return true
}

// noteOwner notes whose token a lock request has; false if the request is malformed.
func (s *sim) noteOwner(req *simRequest) bool {
	rest := simLockArgs[req.script]
	if rest == 0 {
		return true
	}
	if len(req.keys) == 0 || len(req.args) != len(req.keys)+rest {
		return false
	}
	c := s.sessions[req.keys[len(req.keys)-1]]
	if c == nil {
		return false
	}
	if other := s.owners[req.token]; other != nil && other != c {
		s.failLocked("token %s belongs to %s and to %s", req.token, other.name, c.name)
	}
	s.owners[req.token] = c
	return true
}

// shorten makes tokens readable.
func shorten(args []string) []string {
	short := make([]string, len(args))
	for i, a := range args {
		if len(a) > 24 {
			a = a[:6] + "…" + a[len(a)-4:]
		}
		short[i] = a
	}
	return short
}

// simRequests is what a node knows of requests that come late or again.
type simRequests struct {
	seen   int                     // requests that may come again
	copies map[string]int          // of each, that are sent again
	newest map[string]int64        // generation, by tombstone
	tokens map[string]*simArrivals // by token
}

// simArrivals is what has arrived about a token.
type simArrivals struct {
	again    bool // a request that may set its keys was sent again
	late     bool // one came late or again, and no release since
	released bool // a release
	behind   bool // after a release one that may set the keys, and no release since
}

func (q *simRequests) of(token string) *simArrivals {
	if q.tokens == nil {
		q.copies, q.newest, q.tokens = map[string]int{}, map[string]int64{}, map[string]*simArrivals{}
	}
	if q.tokens[token] == nil {
		q.tokens[token] = &simArrivals{}
	}
	return q.tokens[token]
}

// copy notes that the request is sent again, if it was not too often.
func (q *simRequests) copy(req *simRequest, most int) bool {
	same := strings.Join(req.args, " ")
	if q.copies[same] >= most {
		return false
	}
	q.copies[same]++
	return true
}

// noteArrival learns from a request whether it is late.
func (n *simNode) noteArrival(req *simRequest) {
	q, a := &n.requests, n.requests.of(req.token)
	switch {
	case req.sets() || req.script == node.Tombstone:
		gen, _ := strconv.ParseInt(req.argv[len(req.argv)-1], 10, 64)
		if req.script == node.Tombstone {
			gen, _ = strconv.ParseInt(req.argv[0], 10, 64)
		}
		tombstone := req.keys[len(req.keys)-1]
		if req.sets() {
			a.late = a.late || gen < q.newest[tombstone] || a.again
			a.behind = a.released
		}
		q.newest[tombstone] = max(q.newest[tombstone], gen)
	case req.script == unlockScript || req.script == undoScript:
		a.released, a.late, a.behind = true, false, false
	}
}

// mayHave reports whether a late request may have set a token's keys behind its release.
func (n *simNode) mayHave(token string) bool {
	s := n.s
	if !s.late && !s.strangers {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := n.requests.of(token)
	return s.late && a.late || s.strangers && a.behind
}

// requestRand returns random numbers for the next of the node's requests. s.mu is held.
func (n *simNode) requestRand() *rand.Rand {
	n.requests.seen++
	return rand.New(rand.NewPCG(n.s.seed, uint64(len(n.s.nodes)*n.requests.seen)<<16+uint64(n.index)))
}

// sendAgain has a request run once more. TCP duplicates nothing within a connection, so it
// runs on another one, and its answer is thrown away.
func (n *simNode) sendAgain(req *simRequest, after time.Duration) {
	s := n.s
	s.again.Go(func() {
		time.Sleep(after)
		if req.sets() {
			s.mu.Lock()
			n.requests.of(req.token).again = true
			s.mu.Unlock()
		}
		s.tracef("%s gets a request again: %s", n.Name(), req.script.Name)
		boxed := make([]any, len(req.args))
		for i, a := range req.args {
			boxed[i] = a
		}
		n.send(time.Minute, req.cmd, boxed...)
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

// awaitLate waits until nothing is on its way any more.
func (s *sim) awaitLate(longest time.Duration) {
	s.again.Wait()
	time.Sleep(longest + time.Second)
}
