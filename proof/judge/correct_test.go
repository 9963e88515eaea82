package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// These histories are odd, and correct. Each has the rules that must have looked at something.
var correct = []tale{
	{"the first in line is told of a release", []string{"next in line"}, func(s *story) { s.releases("c2", "c3") }},
	{"nodes that were not seen, or have lost it, may have had a lock", []string{"support"}, func(s *story) {
		s.header.Nodes = 5
		s.strikes(history.Empty, 1, 100, 200)
		n := s.lock("c1", 0, 150, 1, "a")
		s.grants("c1", n, 2, 0)
		s.node(history.StepGap, "c1", n, 3, 0, 3)
	}},
	{"what is locked without quarantine is lost with a node's data", []string{"overlap"}, func(s *story) {
		s.header.MaxTTL, s.header.Bare = ms(1000), []string{"a"}
		s.grants("c1", s.lock("c1", 0, 5, 1, "a"), 2, 0, 1)
		s.strikes(history.Empty, 1, 100, 200)
		s.grants("c2", s.lock("c2", 300, 305, 2, "a"), 303, 1, 2)
	}},
	{"a node keeps its vote, and votes when its quarantine is over", []string{"quarantine"}, func(s *story) {
		s.header.MaxTTL = ms(1000)
		n := s.lock("c2", 0, 5, 1, "b")
		s.grants("c2", n, 2, 0, 1, 2)
		s.strikes("kill", 1, 100, 200)
		s.node(history.StepFound, "c2", n, 210, 790, 1)
		s.extend("c2", n, 300, 305, 1299)
		s.node(history.StepExtend, "c2", n, 302, 1000, 0, 1, 2)
		s.grants("c1", s.lock("c1", 900, 905, 1, "a"), 903, 0, 2)
		s.grants("c1", s.lock("c1", 1200, 1205, 1, "c"), 1203, 0, 1, 2)
	}},
	{"a node of a kept lock is emptied, and another one has a key that was left", nil, func(s *story) {
		s.fault("away", "c2", 2, 100, 200)
		s.strikes(history.Empty, 1, 100, 200)
		n := s.held(history.Event{})
		s.lost(n, 1000)
	}},
	{"who waits has given up, is dead, or nobody hears", nil, func(s *story) {
		n, w := s.inLine()
		s.wait("c3", s.ask("c3", 10, "a"), 15)
		s.dies("c3", 20)
		s.unlock("c1", n, 500, 505)
		s.back("c2", w, 600, history.Event{Outcome: history.OutcomeCancelled})
		s.fault("crowd", "", nobody, 1000, s.ends)
		n = s.lock("c1", 2000, 2005, 2, "a")
		w = s.ask("c2", 2010, "a")
		s.wait("c2", w, 2015)
		s.unlock("c1", n, 2500, 2505)
		s.got("c2", w, 4000, 4900, 3)
	}},
	{"the next one has it right after Until", []string{"overlap"}, func(s *story) {
		s.lock("c1", 0, 5, 1, "a")
		s.lock("c2", 990, 999, 2, "a")
	}},
	{"a holder stands still, and is succeeded", []string{"loss signal", "register"}, func(s *story) {
		n := s.held(history.Event{})
		s.operate(history.Read, "c1", n, "a", 10, 11, 0, true)
		s.freeze("c1", 12, 3000)
		s.section("c2", s.lock("c2", 1000, 1005, 2, "a"), "a", 1010, 0)
		s.lost(n, 3040)
		s.operate(history.Write, "c1", n, "a", 3001, 3002, 1, false)
		s.on("c1", history.OpUnlock, n, 3050, 3055, history.OutcomeLost)
	}},
	{"a process that stalls is late", []string{"loss signal", "bounds", "validity"}, func(s *story) {
		n := s.held(history.Event{})
		call := s.begin("c1", history.OpTryLock, 700, history.Event{Resources: []string{"b"}, Bound: ms(1000)})
		s.stall("c1", 900, 1020)
		s.stall("c1", 1040, 1100)
		s.enter("c1", n, 1130)
		s.lost(n, 1130)
		s.back("c1", call, 1230, history.Event{Outcome: history.OutcomeNoQuorum})
	}},
	{"calls return at the limit", []string{"validity"}, func(s *story) {
		s.lock("c1", 0, 1049, 1, "a")
		s.stall("c1", 2990, 3100)
		s.lock("c1", 2000, 3149, 2, "a")
		s.got("c1", s.begin("c1", history.OpLock, 4000, history.Event{Resources: []string{"a"}, TTL: ms(4)}), 4002, 4001, 3)
	}},
	{"locks and sections at their limits", []string{"validity"}, func(s *story) {
		n := s.ask("c1", 0, "a")
		s.got("c1", n, 5, 1005, 1)
		s.extend("c1", n, 300, 310, 1310)
		s.enter("c1", n, 1350)
		none := s.begin("c2", history.OpLock, 2000, history.Event{Resources: []string{"a"}}) // Nobody knows its ttl.
		s.got("c2", none, 2005, 9000, 2)
		kept := s.lock("c2", 3000, 3005, 3, "b") // Nobody knows its end.
		s.keep("c2", kept, 3006)
		s.enter("c2", kept, 7000)
		s.unlock("c2", kept, 7001, 7002)
	}},
	{"votes of an attempt that was given up, after which another one got the lock", []string{"bounds"}, func(s *story) {
		n := s.lock("c1", 0, 6, 0, "b")
		s.votes(n, 250, 4, 6, 250)
		n = s.begin("c1", history.OpLock, 1000, history.Event{Resources: []string{"b"}, TTL: ms(1000), Bound: ms(3000)})
		s.got("c1", n, 1400, 2299, 0) // It was begun at 1300.
		s.votes(n, 1320, 1004, 1320, 1320)
	}},
	{"an Unlock that never returns", []string{"overlap"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.begin("c1", history.OpUnlock, 10, history.Event{Lock: n})
		s.dies("c1", 11)
		s.lock("c2", 20, 30, 2, "a")
	}},
	{"locks that are lost early, for a reason", []string{"early loss"}, func(s *story) {
		released := s.lock("c1", 0, 5, 1, "a")
		s.release("c3", "c1", released, 10, 15, "")
		s.on("c1", history.OpExtend, released, 20, 25, history.OutcomeLost)
		raced := s.lock("c1", 30, 35, 2, "a")
		s.on("c1", history.OpExtend, raced, 40, 60, history.OutcomeLost)
		s.unlock("c1", raced, 41, 50)
		clocks := s.lock("c1", 2000, 2005, 3, "a")
		s.on("c1", history.OpUnlock, clocks, 2010, 2015, history.OutcomeLost)
		s.events[len(s.events)-1].Err = "redlock: lock expired"
		emptied, node := s.lock("c1", 3000, 3005, 4, "a"), 2
		s.add(history.Event{At: ms(3010), Kind: history.FaultBegin, Fault: history.Empty, Node: &node})
		s.on("c1", history.OpExtend, emptied, 3020, 3025, history.OutcomeLost)
		late := s.lock("c2", 4000, 4005, 5, "a")
		s.on("c2", history.OpUnlock, late, 4990, 5000, history.OutcomeLost)
	}},
	{"waiters that go in order", []string{"waiters"}, func(s *story) {
		has := s.lock("c2", 0, 5, 1, "a")
		s.extend("c2", has, 900, 905, 1899)
		var line []int
		for i := range int64(4) { // The first two come at one time, and may go in any order. The third one gives up.
			n := s.ask("c1", 10+i/2*400, "a")
			s.wait("c1", n, 12+i/2*400+i)
			line = append(line, n)
		}
		s.unlock("c2", has, 1130, 1132)
		for i, n := range []int{line[1], line[0], line[3]} {
			at := 1140 + int64(i)*20
			s.got("c1", n, at, at+990, 2+int64(i))
			s.unlock("c1", n, at+10, at+12)
		}
		s.back("c1", line[2], 1300, history.Event{Outcome: history.OutcomeCancelled})
	}},
	{"a process that was killed, and its successor", []string{"bounds"}, func(s *story) {
		s.begin("c1", history.OpTryLock, 0, history.Event{Resources: []string{"a"}, TTL: ms(1000), Bound: ms(500)})
		s.dies("c1", 400)
		s.lock("c1.2", 600, 605, 2, "a")
		n := s.begin("c1.2", history.OpTryLock, 650, history.Event{Resources: []string{"b"}, TTL: ms(1000), Bound: ms(800)})
		s.back("c1.2", n, 840, history.Event{Outcome: history.OutcomeNoQuorum})
	}},
	{"holds that end in time", []string{"hold limits"}, func(s *story) {
		n := s.held(history.Event{MaxHold: ms(300), StopTime: ms(500)})
		s.stops(n, 340, 999)
		s.unlock("c1", n, 900, 905)
		late := s.with("c1", 2000, 2005, 2999, 2, history.Event{Resources: []string{"a"}, StopTime: ms(400)})
		s.keep("c1", late, 2800) // Then it is told at once.
		s.stops(late, 2801, 2999)
		s.unlock("c1", late, 2810, 2815)
		stood := s.with("c1", 4000, 4005, 4999, 3, history.Event{Resources: []string{"a"}, MaxHold: ms(100)})
		s.keep("c1", stood, 4006)
		s.freeze("c1", 4050, 4600)
		s.unlock("c1", stood, 4640, 4645)
		s.keep("c2", s.with("c2", 6000, 6005, 6999, 4, history.Event{Resources: []string{"a"}, MaxHold: ms(100)}), 6006)
		s.dies("c2", 6100)
	}},
	{"permits at their limits", []string{"permits"}, func(s *story) {
		s.header.Drift = 0.01
		for at, slot := range map[int64]string{0: "0", 1: "1", 210: "0", 211: "1"} {
			s.unlock("c1", s.permit("c1", slot, at, at+5, 1+at), at+6, at+8)
		}
		s.release("c2", "c1", s.permit("c1", "0", 420, 425, 500), 426, 428, "")
		s.permit("c3", "1", 430, 432, 500)
		s.permit("c3", "0", 435, 437, 501)
	}},
	{"a turn", []string{"turns", "support", "fence order", "validity", "release outcome", "released", "keys left"}, func(s *story) {
		calls := s.passes(20, 30, 55) // The nodes granted it at 5 at the latest.
		s.begins(calls[0])
		s.extend("c1", calls[3], 60, 65, 1059)
		s.node(history.StepExtend, "c1", calls[0], 63, 1000, 0, 1, 2)
		s.unlock("c1", calls[3], 500, 505)
		s.deletes("c1", calls[0], 503, 0, 1, 2)
		s.follows(510, 10)
	}},
	{"an extension that is under way when the lock is passed on", []string{"turns", "validity"}, func(s *story) {
		calls := s.passes(20)
		n := s.begin("c1", history.OpExtend, 10, history.Event{Lock: calls[0], TTL: ms(1000)})
		s.back("c1", n, 40, history.Event{Outcome: history.OutcomeLost})
		s.enter("c1", calls[1], 1005) // By then its end has moved.
		s.extend("c1", calls[1], 1007, 1008, 1500)
		s.events[len(s.events)-2].TTL = ms(490)
	}},
	{"processes that take turns", []string{"turns"}, func(s *story) { s.takesTurns("c2") }},
}

func TestOddHistoriesAreCorrect(t *testing.T) {
	for _, c := range correct {
		t.Run(c.name, func(t *testing.T) {
			s := newStory()
			c.tell(s)
			v := s.breaks(t)
			for _, name := range c.rules {
				require.Equal(t, Held, v.Rule(name).State, "%s", v)
			}
		})
	}
}
