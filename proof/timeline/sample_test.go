package timeline_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

const (
	ms     = int64(1e6)
	second = 1000 * ms
)

// A course makes histories without servers: clients take turns as locks would have them do.
type course struct {
	*rand.Rand
	events []history.Event
	free   map[string]int64 // By resource: from when on.
	calls  map[string]int   // By process.
	fence  int64
}

func (c *course) say(e history.Event) { c.events = append(c.events, e) }

func (c *course) around(n int64) int64 { return n/2 + c.Int64N(n) }

var header = history.Header{
	Seed: 7, Course: "all", Library: "redlock", Commit: "0123456789ab", Nodes: 5, Clients: 4, Fences: true,
	Started: "2026-11-22T23:00:00Z", Command: "go run ./chaos -seed 7 -time 30s",
	Versions: map[string]string{"go": "go1.26.8", "server": "Redis 7.0.15"}, Settings: map[string]string{"ttl": "400ms", "quorum": "3"},
}

// sample is a run of some seconds with four clients and five nodes, in which node 1 is killed and client c2 frozen and
// killed.
func sample(length int64) []history.Event {
	c := &course{Rand: rand.New(rand.NewPCG(7, 1)), free: map[string]int64{}, calls: map[string]int{}}
	c.say(history.Event{Kind: history.Run, Run: &header})
	c.faults(length)
	type worker struct {
		client string
		at     int64
	}
	var workers []worker
	for i := range 8 {
		workers = append(workers, worker{fmt.Sprint("c", i/2+1), c.Int64N(50 * ms)})
	}
	for i := range 4 {
		c.say(history.Event{At: int64(i) * ms, Kind: history.Up, Client: fmt.Sprint("c", i+1)})
	}
	for {
		w := &workers[0]
		for i := range workers {
			if workers[i].at < w.at {
				w = &workers[i]
			}
		}
		if w.at > length {
			break
		}
		w.at = c.turn(w.client, w.at, length)
	}
	for n := range 5 {
		c.say(history.Event{At: length + second, Kind: history.Keys, Node: &n})
	}
	c.say(history.Event{At: length + second, Kind: history.Register, Resources: []string{"account:1"}, Value: 42, Fence: 77})
	c.say(history.Event{At: length + second, Kind: history.End})
	slices.SortStableFunc(c.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return c.events
}

func (c *course) faults(length int64) {
	for at := 2 * second; at < length; at += 7 * second {
		node := int(at/second) % 5
		both := func(begin, end int64, e history.Event) {
			e.At, e.Kind = begin, history.FaultBegin
			c.say(e)
			e.At, e.Kind = end, history.FaultEnd
			c.say(e)
		}
		both(at, at+1500*ms, history.Event{Fault: "kill -9", Node: &node, Detail: "comes back with its data"})
		both(at+2*second, at+2600*ms, history.Event{Fault: "freeze", Client: "c2", Detail: "SIGSTOP for longer than the ttl"})
		both(at+4*second, at+4800*ms, history.Event{Fault: "overload", Detail: "64 connections beside it"})
		c.say(history.Event{At: at + 3*second, Kind: history.FaultBegin, Fault: "resets", Node: &node})
	}
}

// turn is a call, and what follows it; it returns when the worker is done.
func (c *course) turn(client string, at, length int64) int64 {
	resources := []string{fmt.Sprint("account:", c.IntN(6)+1)}
	if c.IntN(6) == 0 {
		resources = append(resources, "ledger")
	}
	c.calls[client]++
	call := c.calls[client]
	c.say(history.Event{At: at, Kind: history.Call, Client: client, Op: history.OpLock, Call: call, Resources: resources, TTL: 400 * ms})
	free := at
	for _, r := range resources {
		free = max(free, c.free[r])
	}
	if free > at {
		c.votes(client, call, at, "taken")
		c.say(history.Event{At: at + 2*ms, Kind: history.Wait, Client: client, Call: call})
		if free > at+500*ms {
			c.say(history.Event{At: at + 500*ms, Kind: history.Return, Client: client, Op: history.OpLock, Call: call, Outcome: history.OutcomeTaken, Err: "redlock: taken: held by c1"})
			return at + 500*ms + c.around(100*ms)
		}
	}
	got := max(free, at) + c.around(2*ms)
	until := got + 380*ms
	c.fence++
	c.votes(client, call, got-ms, "yes")
	c.say(history.Event{At: got, Kind: history.Return, Client: client, Op: history.OpLock, Call: call, OK: true, Until: until, Fence: c.fence, Token: "t"})
	return c.work(client, call, resources, got, until, length)
}

func (c *course) work(client string, lock int, resources []string, got, until, length int64) int64 {
	end := got + c.around(120*ms)
	if c.IntN(5) == 0 { // Long work: it is extended.
		end += 300 * ms
		c.calls[client]++
		at := got + 130*ms
		c.say(history.Event{At: at, Kind: history.Call, Client: client, Op: history.OpExtend, Call: c.calls[client], Lock: lock})
		c.votes(client, c.calls[client], at+ms, "yes")
		until = at + 380*ms
		c.say(history.Event{At: at + 2*ms, Kind: history.Return, Client: client, Op: history.OpExtend, Call: c.calls[client], OK: true, Until: until})
	}
	refused := c.IntN(40) == 0
	if refused {
		end = until + 60*ms
		c.say(history.Event{At: until, Kind: history.Lost, Client: client, Lock: lock, Err: "redlock: expired"})
	}
	for _, r := range resources {
		c.free[r] = min(end, until)
	}
	inside := history.Event{Client: client, Lock: lock, Resources: resources}
	add := func(at int64, kind history.Kind) { inside.At, inside.Kind = at, kind; c.say(inside) }
	add(got+ms, history.Enter)
	for i, r := range resources {
		read := history.Event{At: got + int64(i+2)*ms, Kind: history.Read, Client: client, Lock: lock, Resources: []string{r}, Fence: c.fence, Value: c.fence, OK: true, End: got + int64(i+3)*ms}
		c.say(read)
		read.Kind, read.At, read.End, read.OK = history.Write, end-2*ms, end-ms, !refused
		c.say(read)
	}
	add(end, history.Leave)
	c.calls[client]++
	c.say(history.Event{At: end + ms, Kind: history.Call, Client: client, Op: history.OpUnlock, Call: c.calls[client], Lock: lock})
	if end+3*ms < length {
		c.votes(client, c.calls[client], end+2*ms, "yes")
		c.say(history.Event{At: end + 3*ms, Kind: history.Return, Client: client, Op: history.OpUnlock, Call: c.calls[client], OK: !refused})
	}
	return end + c.around(60*ms)
}

func (c *course) votes(client string, call int, at int64, says string) {
	e := history.Event{At: at + ms, Kind: history.Votes, Client: client, Call: call}
	for n := range 5 {
		v := history.Vote{Node: n, At: at + c.Int64N(ms), Says: says}
		if dead := at / second % 7; (dead == 2 || dead == 3 && at%second < 500*ms) && n == int(at/second/7*7+2)%5 {
			v.Says, v.At = "timeout", at+ms
		}
		e.Votes = append(e.Votes, v)
	}
	c.say(e)
}

// rules is a verdict with as many violations as asked for, over the sample.
func rules(violations int) judge.Verdict {
	v := judge.Verdict{Run: header, Rules: []judge.Result{
		{Rule: "overlap", Promise: "Two holders' times on one resource never overlap.", Facts: 1234, State: judge.Held},
		{Rule: "register", Promise: "The register is linearizable, and never goes behind a fence.", Facts: 2468, State: judge.Held},
		{Rule: "waiters", Promise: "Waiters get their turns in the order in which they came.", State: judge.Nothing},
		{Rule: "keys", Promise: "No key is left when all is over.", State: judge.LeftOut, Why: "this course excepts it"},
	}}
	for i := range violations {
		v.Rules[0].State, v.Rules[0].Violations = judge.Broken, violations
		v.Violations = append(v.Violations, judge.Violation{
			Rule: "overlap", Sentence: "c1 and c3 both held account:1 for 40 ms.",
			From: int64(i+1) * 3 * second, To: int64(i+1)*3*second + 40*ms, Clients: []string{"c1", "c3.2"},
		})
	}
	return v
}
