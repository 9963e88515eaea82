package judge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// Each of these histories breaks the rules that are named, and no others.
var broken = []tale{
	{"two have what is locked without quarantine", []string{"overlap"}, func(s *story) {
		s.header.Bare = []string{"a"}
		s.strikes(history.Empty, 1, 100, 200)
		s.lock("c1", 300, 305, 1, "a")
		s.lock("c2", 310, 315, 2, "a")
	}},
	{"it is got again while it is extended", []string{"overlap"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.extend("c1", n, 300, 310, 1299)
		s.lock("c2", 1100, 1110, 2, "a")
	}},
	{"it is got again after its hold was cancelled", []string{"overlap"}, func(s *story) {
		n := s.held(history.Event{})
		s.lost(n, 100)
		s.events[len(s.events)-1].Outcome = history.OutcomeCancelled
		s.lock("c2", 500, 505, 2, "a")
	}},
	{"a fence that falls", []string{"fence order"}, func(s *story) {
		s.unlock("c1", s.lock("c1", 0, 5, 7, "a"), 10, 15)
		s.unlock("c2", s.lock("c2", 20, 25, 6, "a"), 30, 35)
	}},
	{"a lock whose keys end when it does", []string{"support"}, func(s *story) {
		s.node(history.StepGrant, "c1", s.lock("c1", 0, 5, 1, "a"), 3, 996, 0, 1, 2)
	}},
	{"a lock that ends later than its first grant allows", []string{"support"}, func(s *story) {
		n := s.begin("c1", history.OpLock, 0, history.Event{Resources: []string{"a"}, TTL: ms(1000)})
		s.got("c1", n, 20, 1004, 1)
		s.grants("c1", n, 3, 0)
		s.grants("c1", n, 10, 1, 2)
	}},
	{"a lock on two nodes of four, which are its client's", []string{"support"}, func(s *story) {
		s.header.Nodes, s.header.Fences = 5, false
		s.add(history.Event{Kind: history.Up, Client: "c1", Set: []int{0, 1, 2, 3}})
		s.grants("c1", s.lock("c1", 0, 5, 1, "a"), 3, 0, 1, 4)
	}},
	{"a lock with min hold whose keys are deleted", []string{"support"}, func(s *story) {
		n := s.begin("c1", history.OpLock, 0, history.Event{Resources: []string{"a"}, TTL: ms(1000), MinHold: ms(300)})
		s.got("c1", n, 5, 998, 1)
		s.grants("c1", n, 3, 0, 1, 2)
		s.unlock("c1", n, 100, 105)
		s.deletes("c1", n, 102, 0, 1)
	}},
	{"a change that nothing explains", []string{"steps"}, func(s *story) {
		s.node(history.StepOdd, "c1", s.ask("c1", 0, "a"), 3, 0, 0)
		s.dies("c1", 100)
	}},
	{"an extension of what has ended", []string{"support"}, func(s *story) {
		n := s.granted()
		s.extend("c1", n, 980, 1005, 1979)
		s.node(history.StepExtend, "c1", n, 990, 1000, 0)
		s.node(history.StepExtend, "c1", n, 1001, 1000, 1, 2)
	}},
	{"a node has a key in quarantine", []string{"quarantine"}, func(s *story) {
		s.header.MaxTTL = ms(1000)
		n := s.lock("c1", 0, 5, 1, "a")
		s.strikes(history.Empty, 1, 100, 200)
		s.grants("c1", n, 3, 0, 1, 2)
		s.node(history.StepFound, "c1", n, 306, 700, 1)
	}},
	{"a kept lock is lost without a reason", []string{"kept"}, func(s *story) {
		s.header.Nodes = 5
		s.strikes("kill", 1, 100, 200)
		s.strikes("cut", 2, 300, 300)
		n := s.held(history.Event{})
		s.lost(n, 1000)
	}},
	{"a kept lock is lost when clocks are set", []string{"kept"}, func(s *story) {
		s.strikes("clock", 1, 100, 200)
		s.strikes("clock", 2, 100, 200)
		n := s.held(history.Event{})
		s.lost(n, 1000)
	}},
	{"a kept lock is lost while another client is disturbed", []string{"kept"}, func(s *story) {
		s.fault("away", "c2", 2, 100, 200)
		n := s.held(history.Event{})
		s.lost(n, 1000)
	}},
	{"a node that is well does not get its key again", []string{"kept"}, func(s *story) {
		s.strikes(history.Empty, 1, 100, 200)
		s.stays(5000)
		s.grants("c2", s.lock("c2", 9000, 9005, 2, "a"), 9003, 0, 1, 2)
	}},
	{"a release of which those in line do not hear", []string{"next in line"}, func(s *story) {
		n, w := s.inLine()
		s.unlock("c1", n, 500, 505)
		s.got("c2", w, 1700, 2600, 2)
	}},
	{"half of those in line hear late", []string{"next in line"}, func(s *story) { s.hearLate() }},
	{"the last in line is told of a release", []string{"next in line"}, func(s *story) { s.releases("c3", "c2") }},
	{"a node has the key of a lock that was released", []string{"keys left"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.node(history.StepGrant, "c1", n, 2, 9000, 0, 1, 2)
		s.unlock("c1", n, 500, 505)
		s.deletes("c1", n, 503, 1, 2)
	}},
	{"a fence that only one node has had", []string{"fence order"}, func(s *story) {
		n := s.lock("c1", 0, 5, 7, "a")
		s.grants("c1", n, 2, 0, 1, 2)
		s.events[len(s.events)-1].Fence, s.events[len(s.events)-2].Fence = 6, 8
	}},
	{"no fence", []string{"fence order"}, func(s *story) {
		s.lock("c1", 0, 5, 0, "a")
		s.lock("c1", 1000, 1005, 1, "a")
	}},
	{"a write that is lost", []string{"register"}, func(s *story) {
		one, two := s.lock("c1", 0, 5, 1, "a"), 0
		s.section("c1", one, "a", 10, 0)
		s.unlock("c1", one, 20, 25)
		two = s.lock("c2", 30, 35, 2, "a")
		s.section("c2", two, "a", 40, 0)
	}},
	{"a holder is refused by the fence of a lock that nobody knows", []string{"register", "complete"}, func(s *story) {
		one := s.lock("c1", 0, 5, 1, "a")
		s.fences[id{"c2", 9}] = 2
		s.section("c2", 9, "a", 10, 0)
		s.operate(history.Write, "c1", one, "a", 20, 21, 1, false)
	}},
	{"a write with another fence", []string{"register"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.fences[id{"c1", n}] = 2
		s.section("c1", n, "a", 10, 0)
	}},
	{"the later waiter is first", []string{"waiters"}, func(s *story) { s.overtaken() }},
	{"the later waiter is served, and the first one never", []string{"waiters", "next in line"}, func(s *story) {
		first := s.overtaken()
		s.events = s.events[:len(s.events)-1]
		s.back("c1", first, 3000, history.Event{Outcome: history.OutcomeCancelled})
	}},
	{"a loss signal of a second hold that is late", []string{"loss signal", "kept"}, func(s *story) {
		n := s.held(history.Event{})
		s.stops(n, 300, 999)
		s.keep("c1", n, 310)
		s.lost(n, 1099)
	}},
	{"no loss signal until the process ends by itself", []string{"loss signal"}, func(s *story) {
		s.held(history.Event{})
		s.quits("c1", 3000)
	}},
	{"no loss signal before an Unlock that fails", []string{"loss signal"}, func(s *story) {
		n := s.held(history.Event{})
		s.on("c1", history.OpUnlock, n, 2000, 2005, history.OutcomeLost)
		s.events[len(s.events)-2].Until = ms(999)
	}},
	{"a loss signal that waits for the end, and an extension has shown the loss", []string{"loss signal", "kept"}, func(s *story) {
		n := s.held(history.Event{})
		s.on("c1", history.OpExtend, n, 300, 305, history.OutcomeLost)
		s.lost(n, 999)
	}},
	{"a loss signal that is later than a stall explains", []string{"loss signal"}, func(s *story) {
		n := s.held(history.Event{})
		s.stall("c1", 800, 990) // Before the end.
		s.stall("c1", 1000, 1100)
		s.freeze("c1", 1050, 1150) // The process has told of a part of it.
		s.stall("c2", 4000, 5000)
		s.lost(n, 1200)
	}},
	{"stalls that leave much time to run", []string{"loss signal"}, func(s *story) {
		n := s.held(history.Event{})
		for at := int64(1000); at < 2000; at += 40 {
			s.stall("c1", at, at+20)
		}
		s.lost(n, 1110)
	}},
	{"a lock that is longer than its ttl", []string{"validity"}, func(s *story) {
		s.got("c1", s.ask("c1", 0, "a"), 5, 1006, 1)
	}},
	{"a kept lock that is longer than its ttl", []string{"validity"}, func(s *story) {
		n := s.held(history.Event{})
		s.unlock("c1", n, 3000, 3005)
		s.events[len(s.events)-2].Until = ms(4001)
	}},
	{"a lock without an end", []string{"validity"}, func(s *story) {
		s.back("c1", s.ask("c1", 1000, "a"), 1005, history.Event{OK: true, Fence: 1})
	}},
	{"Lock returns after Until", []string{"validity"}, func(s *story) { s.lock("c1", 0, 1050, 1, "a") }},
	{"an extension that began after Until succeeds", []string{"validity"}, func(s *story) {
		s.extend("c1", s.lock("c1", 0, 5, 1, "a"), 1500, 1505, 2499)
	}},
	{"an extension that changes nothing", []string{"validity"}, func(s *story) {
		s.extend("c1", s.lock("c1", 0, 5, 1, "a"), 300, 310, 999)
	}},
	{"a section begins after the end of a kept lock", []string{"validity", "kept"}, func(s *story) {
		n := s.held(history.Event{})
		s.lost(n, 999)
		s.enter("c1", n, 1050)
	}},
	{"Unlock is nil after the loss signal", []string{"release outcome", "early loss", "kept"}, func(s *story) {
		n := s.held(history.Event{})
		s.lost(n, 500)
		s.unlock("c1", n, 600, 605)
	}},
	{"Release is nil for a lock that was succeeded", []string{"release outcome"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.lock("c2", 1000, 1005, 2, "a")
		s.release("c3", "c1", n, 1010, 1015, "")
	}},
	{"Release is nil for a lock that was released", []string{"release outcome"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.unlock("c1", n, 10, 15)
		s.release("c3", "c1", n, 20, 25, "")
	}},
	{"a key is left", []string{"keys left"}, func(s *story) {
		node := 1
		s.add(history.Event{At: ms(2000), Kind: history.Keys, Node: &node, Keys: []string{"a"}})
	}},
	{"a call returns late", []string{"bounds"}, func(s *story) {
		n := s.begin("c1", history.OpTryLock, 0, history.Event{Resources: []string{"a"}, Bound: ms(500)})
		s.back("c1", n, 551, history.Event{Outcome: history.OutcomeNoQuorum})
	}},
	{"a call waits for a node that hangs", []string{"bounds"}, func(s *story) {
		n := s.lock("c1", 0, 250, 0, "b")
		s.votes(n, 250, 4, 6, 250)
	}},
	{"a call hangs until its process dies", []string{"bounds"}, func(s *story) {
		s.begin("c1", history.OpTryLock, 0, history.Event{Resources: []string{"a"}, Bound: ms(500)})
		s.dies("c1", 1000)
	}},
	{"the history is cut short", []string{"complete"}, func(s *story) { s.cut = true }},
	{"a call did not return", []string{"complete"}, func(s *story) { s.ask("c1", 0, "a") }},
	{"a lock on nothing", []string{"complete"}, func(s *story) {
		s.on("c1", history.OpUnlock, s.lock("c1", 0, 5, 1), 10, 15, history.OutcomeLost)
	}},
	{"a return without its call", []string{"complete"}, func(s *story) { s.back("c1", 4, 10, history.Event{}) }},
	{"a call on a lock that nobody has", []string{"complete"}, func(s *story) { s.unlock("c1", 3, 0, 5) }},
	{"a freeze that never ends", []string{"complete"}, func(s *story) {
		s.add(history.Event{At: ms(1), Kind: history.FaultBegin, Fault: history.Freeze, Client: "c1"})
	}},
	{"an answer before its question", []string{"complete"}, func(s *story) {
		s.operate(history.Read, "c1", s.lock("c1", 0, 5, 1, "a"), "a", 20, 10, 0, true)
	}},
	{"a return before its call", []string{"complete"}, func(s *story) {
		s.on("c1", history.OpUnlock, s.lock("c1", 0, 5, 1, "a"), 20, 10, history.OutcomeNoQuorum)
	}},
	{"a return of another call", []string{"complete"}, func(s *story) {
		s.unlock("c1", s.lock("c1", 0, 5, 1, "a"), 20, 25)
		s.events[len(s.events)-1].Op = history.OpExtend
	}},
	{"a success that failed", []string{"complete"}, func(s *story) {
		s.unlock("c1", s.lock("c1", 0, 5, 1, "a"), 20, 25)
		s.events[len(s.events)-1].Outcome = history.OutcomeNoQuorum
	}},
	{"two locks with one token", []string{"complete"}, func(s *story) {
		for at := range int64(2) {
			s.lock("c1", at*2000, at*2000+5, at+1, "a")
			s.events[len(s.events)-1].Token = "t"
		}
	}},
	{"a process that goes on when it has ended", []string{"complete"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.dies("c1", 6)
		s.unlock("c1", n, 20, 25)
	}},
	{"a client whose time is ahead of the run's", []string{"complete"}, func(s *story) {
		s.lock("c1", s.ends+1000, s.ends+1005, 1, "a")
	}},
	{"more after the end", []string{"complete"}, func(s *story) {
		s.add(history.Event{At: ms(5), Kind: history.End})
	}},
	{"a hold beyond its max hold, which is unlocked", []string{"hold limits"}, func(s *story) {
		s.unlock("c1", s.held(history.Event{MaxHold: ms(300)}), 400, 405)
	}},
	{"a hold that never ends", []string{"hold limits", "loss signal"}, func(s *story) { s.held(history.Event{MaxHold: ms(300)}) }},
	{"a hold that ends too late to stop", []string{"hold limits"}, func(s *story) {
		n := s.held(history.Event{StopTime: ms(400)})
		s.stops(n, 650, 999)
		s.unlock("c1", n, 700, 705)
	}},
	{"three have one of two", []string{"permits", "overlap"}, func(s *story) {
		s.permit("c1", "0", 0, 5, 1)
		s.permit("c2", "1", 0, 6, 1)
		s.permit("c3", "1", 300, 305, 2)
	}},
	{"three in a period", []string{"permits"}, func(s *story) {
		for i, slot := range []string{"0", "1", "2"} {
			at := int64(i) * 80
			s.unlock("c1", s.permit("c1", slot, at, at+5, 1), at+6, at+8)
		}
	}},
	{"another client has other nodes", []string{"sets"}, func(s *story) {
		s.add(history.Event{Kind: history.Up, Client: "c1"})
		s.add(history.Event{At: ms(5), Kind: history.Sets, Client: "c1", Err: "c2 has d instead of c"})
	}},
	{"a pass after the end of its turn", []string{"turns"}, func(s *story) { s.passes(20, 56) }},
	{"a pass after the end of its lock", []string{"turns", "release outcome"}, func(s *story) {
		n, next := s.asksInTurn("c1", 0), s.asksInTurn("c1", 2)
		s.stall("c1", 6, 5000)
		s.events[0].Turn = ms(2000)
		s.takes("c1", n, n, 5, 999, 1)
		s.unlock("c1", n, 1010, 1011)
		s.takes("c1", next, n, 1012, 1990, 2)
	}},
	{"a pass of what was found lost", []string{"turns", "early loss", "release outcome"}, func(s *story) {
		n, next := s.asksInTurn("c1", 0), s.asksInTurn("c1", 2)
		s.takes("c1", n, n, 5, 999, 1)
		s.on("c1", history.OpExtend, n, 6, 8, history.OutcomeLost)
		s.unlock("c1", n, 10, 11)
		s.takes("c1", next, n, 11, 999, 2)
	}},
	{"a pass of what is not released", []string{"turns", "overlap"}, func(s *story) {
		n, next := s.asksInTurn("c1", 0), s.asksInTurn("c1", 2)
		s.takes("c1", n, n, 5, 999, 1)
		s.takes("c1", next, n, 11, 999, 2)
		s.unlock("c1", n, 12, 13)
	}},
	{"a pass with the same fence", []string{"turns", "fence order"}, func(s *story) {
		s.passes(20, 30)
		s.refence(3, 2)
	}},
	{"a pass to a call that polls", []string{"turns"}, func(s *story) {
		s.passes(20)
		s.events[2].Polls = true
	}},
	{"a pass to a call for another resource", []string{"turns"}, func(s *story) {
		s.passes(20)
		s.events[2].Resources = []string{"b"}
	}},
	{"a pass that leaves much less than was asked for", []string{"validity"}, func(s *story) {
		s.passes(20)
		s.events[2].TTL = ms(1500)
	}},
	{"an extension by a handle that is over", []string{"validity"}, func(s *story) {
		s.extend("c1", s.passes(20)[0], 30, 35, 1029)
	}},
	{"a token of a turn that releases", []string{"turns"}, func(s *story) {
		n := s.passes()[0]
		s.release("c2", "c1", n, 20, 25, "")
	}},
	{"an Unlock of an earlier handle that deletes keys", []string{"support"}, func(s *story) {
		calls := s.passes(20)
		s.begins(calls[0])
		s.deletes("c1", calls[0], 25, 0, 1, 2)
	}},
	{"the last Unlock of a turn leaves its keys", []string{"released", "keys left"}, func(s *story) {
		calls := s.passes(20)
		s.fences[id{"c1", calls[0]}] = 9
		s.node(history.StepGrant, "c1", calls[0], 3, 9000, 0, 1, 2)
		s.unlock("c1", calls[1], 30, 35)
	}},
	{"a lock that is passed on to nobody", []string{"keys left"}, func(s *story) {
		calls := s.passes(20)
		s.fences[id{"c1", calls[0]}] = 9
		s.node(history.StepGrant, "c1", calls[0], 3, 9000, 0, 1, 2)
		s.unlock("c1", calls[1], 30, 35)
		s.add(history.Event{At: ms(31), Kind: history.Passed, Client: "c1", Lock: calls[1]})
	}},
	{"a fence within those of a turn", []string{"fence order"}, func(s *story) {
		calls := s.passes(20)
		s.begins(calls[0]) // Its locks have 1 and 2, and it might have passed it on more often.
		s.unlock("c1", calls[1], 30, 35)
		s.deletes("c1", calls[0], 33, 0, 1, 2)
		s.follows(40, 8)
	}},
	{"the same process again, and another one has waited for longer", []string{"turns"}, func(s *story) { s.takesTurns("c1") }},
}

func TestEveryRuleIsBrokenByAHistory(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			s := newStory()
			b.tell(s)
			v := s.breaks(t, b.rules...)
			for _, name := range b.rules {
				seen[name] = true
				require.Positive(t, v.Rule(name).Facts)
			}
			_, err := json.Marshal(v)
			require.NoError(t, err)
		})
	}
	for _, r := range rules {
		require.True(t, seen[r.name], "no history breaks the rule %s", r.name)
	}
}
