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
)

// A simRequest is a request that is about to run on a node.
type simRequest struct {
	script     string
	cmd        string // EVAL, EVALSHA, or SET or DELEX of a request without its script
	args       []string
	keys, argv []string
	token      string // if the request is about a token
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

// scriptOf returns the name of the script that is asked for by its text or its hash.
func scriptOf(program string) string {
	if script := simScripts[program]; script != nil {
		return script.Name
	}
	return ""
}

// simLockArgs has how many arguments a lock request has besides its keys.
var simLockArgs = map[string]int{"lock": 4, "fencedLock": 6, "queue": 8, "fencedQueue": 10}

// sets reports whether the request may set a key.
func (req *simRequest) sets() bool { return simLockArgs[req.script] > 0 || req.script == "repair" }

// observe sees every command just before it runs on the node.
func (n *simNode) observe(cmd string, args []string) {
	s := n.s
	var req *simRequest
	switch cmd {
	case "SET":
		req = readSet(args)
	case "DELEX":
		if req = readDeletion(args); req != nil && req.token == "" {
			return // Of a handshake.
		}
	case "EVAL", "EVALSHA":
		if s.guarded && scriptOf(args[0]) == "" {
			return // Quarantine has texts of its own.
		}
		req = readCall(scriptOf(args[0]), cmd, args)
	default:
		return
	}
	if req == nil {
		s.failf("%s was sent a malformed request: %s %q", n.Name(), cmd, args)
		return
	}
	n.note(req)
	if s.onRequest != nil {
		s.onRequest(n, req)
	}
}

// readSet reads a lock request that was sent without its script; nil if it is malformed.
func readSet(args []string) *simRequest {
	if len(args) != 6 || !slices.Equal(args[2:5], []string{"NX", "GET", "PX"}) {
		return nil
	}
	return &simRequest{script: "lock", cmd: "SET", args: args, keys: args[:1], argv: []string{args[1], args[5]}, token: args[1]}
}

// readDeletion reads a release that was sent without its script; nil if it is malformed.
func readDeletion(args []string) *simRequest {
	if len(args) != 3 || args[1] != "IFEQ" {
		return nil
	}
	return &simRequest{script: "unlock", cmd: "DELEX", args: args, keys: args[:1], argv: args[2:], token: args[2]}
}

// readCall reads the call of a script; nil if it is malformed.
func readCall(script, cmd string, args []string) *simRequest {
	req := &simRequest{script: script, cmd: cmd, args: args}
	if script == "" || len(args) < 2 {
		return nil
	}
	count, err := strconv.Atoi(args[1])
	rest := simLockArgs[req.script]
	if last := len(args) - 1; strings.HasPrefix(script, "fenced") && last == count+rest && args[last] == "1" {
		rest++ // It is to tell which numbers below the fence are free.
	}
	if err != nil || count < 0 || len(args) < count+2 || rest > 0 && (count == 0 || len(args) != count+rest) {
		return nil
	}
	req.keys, req.argv = args[2:count+2], args[count+2:]
	if len(req.argv) > 0 {
		req.token = req.argv[0]
	}
	return req
}

// note enters a request.
func (n *simNode) note(req *simRequest) {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verbose {
		s.traceLocked("    %s <- %s %q", n.Name(), req.script, shorten(req.args[1:]))
	}
	n.noteArrival(req)
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
	tokens map[string]*simArrivals // by token
}

// simArrivals is what has arrived about a token.
type simArrivals struct {
	again    bool      // a request that may set its keys was sent again
	released time.Time // when a release came first
	set      time.Time // when one that may set the keys came late last
}

func (q *simRequests) of(token string) *simArrivals {
	if q.tokens == nil {
		q.copies, q.tokens = map[string]int{}, map[string]*simArrivals{}
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

// noteArrival learns from a request whether it has come late: behind a release of its token, or again, maybe
// behind a refusal. Then it is looked for when it must be gone.
func (n *simNode) noteArrival(req *simRequest) {
	a := n.requests.of(req.token)
	switch {
	case (req.script == "unlock" || req.script == "undo") && a.released.IsZero():
		a.released = time.Now()
	case req.sets() && (!a.released.IsZero() || a.again && !n.s.strangers):
		a.set = time.Now()
		time.AfterFunc(time.Until(n.goneBy(a)), func() { n.checkGone(req, a) })
	}
}

// goneBy is when what has come late is released again, at the latest, if the node can be reached. The
// releases are repeated from the answer to the first one on, in gaps that double. That takes two round
// trips, and as many if others are under way.
func (n *simNode) goneBy(a *simArrivals) time.Time {
	trips := 4*(n.delays[0]+n.delays[1]) + time.Millisecond
	return a.set.Add(a.set.Sub(a.released) + 20*time.Millisecond + trips)
}

// isRepeated reports whether the token's releases are repeated until what has come late has been found. A
// client knows of a request that may come late when its connection ends; of one that somebody repeats on
// the way, only if its token is another process's.
func (n *simNode) isRepeated(a *simArrivals) bool {
	return (!a.again || n.s.strangers) && a.set.Sub(a.released) <= node.MinLate
}

// checkGone checks (5) when what the request has set must be gone, if nothing has kept the client from
// repeating the release.
func (n *simNode) checkGone(req *simRequest, a *simArrivals) {
	s := n.s
	s.mu.Lock()
	set, late, by := a.set, a.set.Sub(a.released), n.goneBy(a)
	c, repeated := s.owners[req.token], n.isRepeated(a)
	closed := c != nil && !c.closing.IsZero() && !s.strangers
	s.mu.Unlock()
	if set.IsZero() || time.Now().Before(by) || !repeated || closed || !n.quietSince(set.Add(-simCalm)) {
		return
	}
	for _, key := range req.keys {
		if n.stores(key, req.token) {
			s.failf("(5) %s has %q = %.6s, which came late, %v after its release, %v ago",
				n.Name(), key, req.token, late, time.Since(set))
		}
	}
}

// mayHave reports whether a late request may have set a token's keys behind its release: just now, or for
// one ttl where nobody repeats that.
func (n *simNode) mayHave(token string) bool {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	a := n.requests.of(token)
	c := s.owners[token]
	closed := c != nil && !c.closing.IsZero() && !s.strangers && a.set.After(c.closing.Add(-n.settle()))
	return !a.set.IsZero() && (closed || !n.isRepeated(a) || time.Now().Before(n.goneBy(a)))
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
		s.tracef("%s gets a request again: %s", n.Name(), req.script)
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

// awaitLate waits until nothing is on its way any more, and what has come late is gone.
func (s *sim) awaitLate(longest time.Duration) {
	s.again.Wait()
	time.Sleep(longest + time.Second)
	time.Sleep(node.MinLate)
}
