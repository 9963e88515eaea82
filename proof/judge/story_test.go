package judge

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// A story is a history that a test tells. All its times are in milliseconds.
type story struct {
	header history.Header
	events []history.Event
	calls  map[string]int
	fences map[id]int64
	values map[string]int64 // of the register, in the end
	ends   int64
	cut    bool // without its end
}

// A tale is what a story tells, and the rules that it is about.
type tale struct {
	name  string
	rules []string
	tell  func(s *story)
}

func newStory() *story {
	return &story{
		header: history.Header{
			Library: "redlock", Nodes: 3, Clients: 3, Fences: true, SignalSlack: int64(50 * time.Millisecond), DriftLeast: ms(2),
		},
		calls: make(map[string]int), fences: make(map[id]int64), values: make(map[string]int64), ends: 60_000,
	}
}

func ms(t int64) int64 { return t * int64(time.Millisecond) }

func (s *story) add(e history.Event) { s.events = append(s.events, e) }

// begin begins a call, and returns its number.
func (s *story) begin(client, op string, at int64, more history.Event) int {
	s.calls[client]++
	more.At, more.Kind, more.Client, more.Op, more.Call = ms(at), history.Call, client, op, s.calls[client]
	s.add(more)
	return more.Call
}

// back has a call return.
func (s *story) back(client string, call int, at int64, more history.Event) {
	more.At, more.Kind, more.Client, more.Call = ms(at), history.Return, client, call
	s.add(more)
}

func (s *story) ask(client string, at int64, resources ...string) int {
	return s.begin(client, history.OpLock, at, history.Event{Resources: resources, TTL: ms(1000)})
}

func (s *story) got(client string, call int, at, until, fence int64) {
	s.fences[id{client, call}] = fence
	s.back(client, call, at, history.Event{OK: true, Until: ms(until), Fence: fence, Holder: holderOf(client, call)})
}

// lock is a call of Lock from 'from' to 'to' that got the lock for a second after it began.
func (s *story) lock(client string, from, to, fence int64, resources ...string) int {
	n := s.ask(client, from, resources...)
	s.got(client, n, to, from+999, fence)
	return n
}

// on is a call on a lock that its client has; outcome is empty for nil.
func (s *story) on(client, op string, lock int, from, to int64, outcome string) {
	n := s.begin(client, op, from, history.Event{Lock: lock})
	s.back(client, n, to, history.Event{OK: outcome == "", Outcome: outcome})
}

func (s *story) unlock(client string, lock int, from, to int64) {
	s.on(client, history.OpUnlock, lock, from, to, "")
}

func (s *story) extend(client string, lock int, from, to, until int64) {
	n := s.begin(client, history.OpExtend, from, history.Event{Lock: lock, TTL: ms(1000)})
	s.back(client, n, to, history.Event{OK: true, Until: ms(until)})
}

// release is a call of Release by a client, for another one's lock.
func (s *story) release(client, owner string, lock int, from, to int64, outcome string) { //nolint:unparam // A line says who it is about.
	n := s.begin(client, history.OpRelease, from, history.Event{Lock: lock, Owner: owner})
	s.back(client, n, to, history.Event{OK: outcome == "", Outcome: outcome})
}

func (s *story) wait(client string, call int, at int64) {
	s.add(history.Event{At: ms(at), Kind: history.Wait, Client: client, Call: call})
}

// overtaken has two calls of c1 wait for what c2 has, and the second one get it first. It returns the first one.
func (s *story) overtaken() int {
	has := s.lock("c2", 0, 5, 1, "a")
	first := s.ask("c1", 10, "a")
	s.wait("c1", first, 12)
	second := s.ask("c1", 700, "a")
	s.wait("c1", second, 702)
	s.unlock("c2", has, 925, 930)
	s.got("c1", second, 940, 1928, 2)
	s.unlock("c1", second, 950, 952)
	s.got("c1", first, 960, 1950, 3)
	return first
}

// releases has c2 wait for locks of c1, and then c3, and first and second get them in this order.
func (s *story) releases(first, second string) {
	for i := range int64(15) {
		at, calls := 3000*i, make(map[string]int)
		n := s.lock("c1", at, at+5, 3*i+1, "a")
		for k, client := range []string{"c2", "c3"} {
			calls[client] = s.ask(client, at+10+int64(k), "a")
			s.wait(client, calls[client], at+15)
		}
		s.unlock("c1", n, at+500, at+505)
		s.got(first, calls[first], at+510, at+1400, 3*i+2)
		s.unlock(first, calls[first], at+600, at+605)
		s.got(second, calls[second], at+610, at+1500, 3*i+3)
		s.unlock(second, calls[second], at+700, at+705)
	}
}

// votes are those on a call of c1, and when they came; the last node gave none.
func (s *story) votes(call int, at int64, came ...int64) {
	e := history.Event{At: ms(at), Kind: history.Votes, Client: "c1", Call: call}
	for i, t := range came {
		v := history.Vote{Node: i, Says: "yes", At: ms(t)}
		if i == s.header.Nodes-1 {
			v.Says = "timeout"
		}
		e.Votes = append(e.Votes, v)
	}
	s.add(e)
}

func (s *story) keep(client string, lock int, at int64) {
	s.add(history.Event{At: ms(at), Kind: history.Keep, Client: client, Lock: lock})
}

// lost is always c1's, of a lock until 999.
func (s *story) lost(lock int, at int64) { s.signal(lock, at, 999, history.OutcomeLost) }

// stops has c1 end a hold, whose lock goes on until then.
func (s *story) stops(lock int, at, until int64) { s.signal(lock, at, until, history.OutcomeCancelled) }

func (s *story) signal(lock int, at, until int64, how string) {
	s.add(history.Event{At: ms(at), Kind: history.Lost, Client: "c1", Lock: lock, Until: ms(until), Outcome: how})
}

// granted is a lock of c1 on a, from all nodes.
func (s *story) granted() int {
	n := s.lock("c1", 0, 5, 1, "a")
	s.grants("c1", n, 2, 0, 1, 2)
	return n
}

// inLine is a lock of c1 on a, and a call of c2 that waits for it.
func (s *story) inLine() (lock, waits int) {
	lock, waits = s.lock("c1", 0, 5, 1, "a"), s.ask("c2", 10, "a")
	s.wait("c2", waits, 15)
	return lock, waits
}

func (s *story) operate(kind history.Kind, client string, lock int, res string, from, to, value int64, ok bool) {
	s.add(history.Event{
		At: ms(from), End: ms(to), Kind: kind, Client: client, Lock: lock, Resources: []string{res},
		Fence: s.fences[id{client, lock}], Value: value, OK: ok,
	})
	if kind == history.Write && ok {
		s.values[res] = value
	}
}

// section is a read and a write, which take 1 ms each.
func (s *story) section(client string, lock int, res string, from, value int64) { //nolint:unparam // As above.
	s.operate(history.Read, client, lock, res, from, from+1, value, true)
	s.operate(history.Write, client, lock, res, from+2, from+3, value+1, true)
}

// nobody is for faults of no node.
const nobody = -1

// fault is one of a client, of a node, or of the way between them.
func (s *story) fault(name, client string, node int, from, to int64) {
	e := history.Event{At: ms(from), Kind: history.FaultBegin, Fault: name, Client: client}
	if node != nobody {
		e.Node = &node
	}
	s.add(e)
	e.At, e.Kind = ms(to), history.FaultEnd
	s.add(e)
}

func (s *story) freeze(client string, from, to int64) {
	s.fault(history.Freeze, client, nobody, from, to)
}

// stall is what a process tells of a time in which it did not run.
func (s *story) stall(client string, from, to int64) {
	s.fault(history.Stall, client, nobody, from, to)
}

func (s *story) strikes(name string, node int, from, to int64) { s.fault(name, "", node, from, to) }

// stays is a lock of c1 on a that is kept alive, and extended each half second for six seconds. Its extensions are calls 2
// to 13. Node 1 does not have it from the first extension on, nor after the one before then.
func (s *story) stays(then int64) {
	n := s.lock("c1", 0, 5, 1, "a")
	s.keep("c1", n, 6)
	s.grants("c1", n, 2, 0, 1, 2)
	s.deletes("c1", n, 400, 1)
	for at := int64(500); at <= 6000; at += 500 {
		s.extend("c1", n, at, at+5, at+999)
		s.node(history.StepExtend, "c1", n, at+2, 1000, 0, 2)
		if at < then {
			s.grants("c1", n, at+3, 1)
			s.deletes("c1", n, at+400, 1)
		}
	}
	s.unlock("c1", n, 6100, 6105)
	s.deletes("c1", n, 6102, 0, 2)
}

// node is what nodes did with the key of a client's lock: it then ends so much later.
func (s *story) node(op, client string, lock int, at, left int64, nodes ...int) {
	for _, n := range nodes {
		e := history.Event{
			At: ms(at), From: ms(at), Kind: history.Step, Op: op, Node: &n, Holder: holderOf(client, lock), TTL: ms(left), Fence: s.fences[id{client, lock}],
		}
		for _, x := range s.events {
			if x.Kind == history.Call && x.Client == client && x.Call == lock {
				e.Resources = x.Resources
			}
		}
		s.add(e)
	}
}

func holderOf(client string, lock int) string { return fmt.Sprint(client, "/", lock) }

// grants is what nodes do when a lock is asked for.
func (s *story) grants(client string, lock int, at int64, nodes ...int) {
	s.node(history.StepGrant, client, lock, at, 1000, nodes...)
}

// deletes is what they do in the end.
func (s *story) deletes(client string, lock int, at int64, nodes ...int) {
	s.node(history.StepRelease, client, lock, at, 0, nodes...)
}

func (s *story) enter(client string, lock int, at int64) {
	s.add(history.Event{At: ms(at), Kind: history.Enter, Client: client, Lock: lock})
}

func (s *story) dies(client string, at int64) {
	s.add(history.Event{At: ms(at), Kind: history.Down, Client: client, Err: "killed"})
}

// told returns the whole history.
func (s *story) told() []history.Event {
	events := slices.SortedStableFunc(slices.Values(s.events), func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	header := s.header
	events = slices.Insert(events, 0, history.Event{Kind: history.Run, Run: &header})
	if slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.Step }) {
		for n := range s.header.Nodes {
			events = slices.Insert(events, 1, history.Event{At: -1, Kind: history.Step, Op: history.StepWatch, Node: &n})
		}
	}
	highest := make(map[string]int64)
	for _, e := range events {
		if e.Kind == history.Read || e.Kind == history.Write {
			res := e.Resources[0]
			highest[res] += 0
			if e.OK {
				highest[res] = max(highest[res], e.Fence)
			}
		}
	}
	for res, fence := range highest {
		events = append(events, history.Event{
			At: ms(s.ends), Kind: history.Register, Resources: []string{res}, Value: s.values[res], Fence: fence,
		})
	}
	for n := range s.header.Nodes {
		events = append(events, history.Event{At: ms(s.ends), Kind: history.Keys, Node: &n})
	}
	if !s.cut {
		events = append(events, history.Event{At: ms(s.ends), Kind: history.End})
	}
	return events
}

// breaks sees that these rules are broken, and no others, and that each says where.
func (s *story) breaks(t *testing.T, names ...string) Verdict {
	t.Helper()
	v := Judge(s.told())
	broken := v.Named(Broken)
	require.ElementsMatch(t, names, broken, "%s", v)
	require.Equal(t, len(names) == 0, v.OK())
	for _, x := range v.Violations {
		require.NotEmpty(t, x.Sentence)
		require.NotContains(t, x.Sentence, "%!", "a format is wrong")
		require.LessOrEqual(t, x.From, x.To, "%s", x)
	}
	return v
}

// with is a lock that was asked for with options.
func (s *story) with(client string, from, to, until, fence int64, asks history.Event) int {
	asks.TTL = ms(until + 1 - from)
	n := s.begin(client, history.OpLock, from, asks)
	s.got(client, n, to, until, fence)
	return n
}

// permit is one of two, of which there are two in 200 ms.
func (s *story) permit(client string, slot string, from, to, fence int64) int {
	asks := history.Event{Resources: []string{"s#" + slot}, Permits: 2, MinHold: ms(200)}
	return s.with(client, from, to, from+999, fence, asks)
}

// held is a lock until 999 that is kept from 6 on.
func (s *story) held(asks history.Event) int {
	asks.Resources = []string{"a"}
	n := s.with("c1", 0, 5, 999, 1, asks)
	s.keep("c1", n, 6)
	return n
}

// asksInTurn has a client wait in line for a, with the option for turns of 50 ms.
func (s *story) asksInTurn(client string, at int64) int {
	n := s.begin(client, history.OpLock, at, history.Event{Resources: []string{"a"}, TTL: ms(1000), Turn: ms(50)})
	s.wait(client, n, at+1)
	return n
}

// takes is the lock of such a call. The nodes have the keys of the lock with the number of holder, which is of the same client.
func (s *story) takes(client string, call, holder int, at, until, fence int64) {
	s.got(client, call, at, until, fence)
	s.events[len(s.events)-1].Holder = holderOf(client, holder)
}

// passes is a turn of c1: its first lock is got at 5, and passed on at each of these times to a call that has waited.
func (s *story) passes(times ...int64) (calls []int) {
	calls = append(calls, s.asksInTurn("c1", 0))
	for range times {
		calls = append(calls, s.asksInTurn("c1", 2))
	}
	s.takes("c1", calls[0], calls[0], 5, 999, 1)
	for i, at := range times {
		s.unlock("c1", calls[i], at, at+1)
		s.add(history.Event{At: ms(at), Kind: history.Passed, Client: "c1", Lock: calls[i]})
		s.takes("c1", calls[i+1], calls[0], at+1, 999, int64(i)+2)
	}
	return calls
}

// begins has the nodes grant the first lock of a turn, with the fence of its last.
func (s *story) begins(call int) {
	s.fences[id{"c1", call}] = 9
	s.grants("c1", call, 3, 0, 1, 2)
}

// follows is a lock of c2 after all of these, of which the nodes have nothing any more.
func (s *story) follows(at, fence int64) {
	n := s.lock("c2", at, at+5, fence, "a")
	s.grants("c2", n, at+3, 0, 1, 2)
	s.unlock("c2", n, at+10, at+15)
	s.deletes("c2", n, at+12, 0, 1, 2)
}

// takesTurns has two processes want the same for long, and c1 be followed by next each time.
func (s *story) takesTurns(next string) {
	for i := range int64(15) {
		at, fence := 3000*i, 3*i
		one, calls := s.asksInTurn("c1", at), make(map[string]int)
		for _, client := range []string{"c1", "c2"} {
			calls[client] = s.asksInTurn(client, at+1)
		}
		s.takes("c1", one, one, at+200, at+1100, fence+1)
		s.unlock("c1", one, at+250, at+252)
		other := map[string]string{"c1": "c2", "c2": "c1"}[next]
		s.takes(next, calls[next], calls[next], at+255, at+1150, fence+2)
		s.unlock(next, calls[next], at+400, at+402)
		s.takes(other, calls[other], calls[other], at+405, at+1300, fence+3)
		s.unlock(other, calls[other], at+410, at+412)
	}
}
