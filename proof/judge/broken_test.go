package judge

import (
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
	{"a fence that falls", []string{"fence order"}, func(s *story) {
		s.unlock("c1", s.lock("c1", 0, 5, 7, "a"), 10, 15)
		s.unlock("c2", s.lock("c2", 20, 25, 6, "a"), 30, 35)
	}},
	{"a lock whose keys end when it does", []string{"support"}, func(s *story) {
		s.node(history.StepGrant, "c1", s.lock("c1", 0, 5, 1, "a"), 3, 996, 0, 1, 2)
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
	{"a write that is lost", []string{"register"}, func(s *story) {
		one, two := s.lock("c1", 0, 5, 1, "a"), 0
		s.section("c1", one, "a", 10, 0)
		s.unlock("c1", one, 20, 25)
		two = s.lock("c2", 30, 35, 2, "a")
		s.section("c2", two, "a", 40, 0)
	}},
	{"a write with another fence", []string{"register"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.fences[id{"c1", n}] = 2
		s.section("c1", n, "a", 10, 0)
	}},
	{"the later waiter is first", []string{"waiters"}, func(s *story) { s.overtaken() }},
	{"a loss signal that is later than a stall explains", []string{"loss signal"}, func(s *story) {
		n := s.held(history.Event{})
		s.stall("c1", 800, 990) // Before the end.
		s.stall("c1", 1000, 1100)
		s.freeze("c1", 1050, 1150) // The process has told of a part of it.
		s.stall("c2", 4000, 5000)
		s.lost(n, 1200)
	}},
	{"a lock that is longer than its ttl", []string{"validity"}, func(s *story) {
		s.got("c1", s.ask("c1", 0, "a"), 5, 1006, 1)
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
	{"the history is cut short", []string{"complete"}, func(s *story) { s.cut = true }},
	{"a call did not return", []string{"complete"}, func(s *story) { s.ask("c1", 0, "a") }},
	{"a return without its call", []string{"complete"}, func(s *story) { s.back("c1", 4, 10, history.Event{}) }},
	{"a freeze that never ends", []string{"complete"}, func(s *story) {
		s.add(history.Event{At: ms(1), Kind: history.FaultBegin, Fault: history.Freeze, Client: "c1"})
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
	{"a pass of what is not released", []string{"turns", "overlap"}, func(s *story) {
		n, next := s.asksInTurn("c1", 0), s.asksInTurn("c1", 2)
		s.takes("c1", n, n, 5, 999, 1)
		s.takes("c1", next, n, 11, 999, 2)
		s.unlock("c1", n, 12, 13)
	}},
	{"a pass to a call that polls", []string{"turns"}, func(s *story) {
		s.passes(20)
		s.events[2].Polls = true
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
		})
	}
	for _, r := range rules {
		require.True(t, seen[r.name], "no history breaks the rule %s", r.name)
	}
}
