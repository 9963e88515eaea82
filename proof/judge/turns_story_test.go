package judge

import (
	"github.com/seed6c881748/redlock/proof/history"
)

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

var brokenTurns = []tale{
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
	{"a pass with a smaller fence", []string{"turns"}, func(s *story) {
		calls := s.passes(20, 30)
		s.fences[id{"c1", calls[1]}] = 3
		s.refence(3, 9)
		s.refence(2, 3)
		s.refence(9, 2)
	}},
	{"a pass with the same fence", []string{"turns", "fence order"}, func(s *story) {
		s.passes(20, 30)
		s.refence(3, 2)
	}},
	{"a pass to a call without the option", []string{"turns"}, func(s *story) {
		s.passes(20)
		s.events[2].Turn = 0
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
	{"a pass that lasts longer than anybody has asked for", []string{"validity"}, func(s *story) {
		s.takes("c1", s.passes()[0]+s.asksInTurn("c1", 2)-1, 1, 30, 1100, 2)
		s.unlock("c1", 1, 20, 21)
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

// refence gives the lock with that fence another one.
func (s *story) refence(from, to int64) {
	for i := range s.events {
		if s.events[i].Kind == history.Return && s.events[i].Fence == from {
			s.events[i].Fence = to
		}
	}
}

var correctTurns = []tale{
	{"a turn", []string{"turns", "support", "fence order", "validity", "release outcome", "released", "keys left"}, func(s *story) {
		calls := s.passes(20, 30, 55) // The nodes granted it at 5 at the latest.
		s.begins(calls[0])
		s.extend("c1", calls[3], 60, 65, 1059)
		s.node(history.StepExtend, "c1", calls[0], 63, 1000, 0, 1, 2)
		s.unlock("c1", calls[3], 500, 505)
		s.deletes("c1", calls[0], 503, 0, 1, 2)
		s.follows(510, 10)
	}},
	{"a turn after a longer ttl", []string{"turns", "validity"}, func(s *story) {
		s.passes(20)
		s.events[2].TTL = ms(930)
	}},
	{"a handle that is over, and calls on it", []string{"turns"}, func(s *story) {
		n := s.passes(20)[0]
		s.on("c1", history.OpExtend, n, 30, 31, history.OutcomeLost)
		s.unlock("c1", n, 32, 32)
		s.release("c2", "c1", n, 33, 33, history.OutcomeNoQuorum)
	}},
	{"an extension that is under way when the lock is passed on", []string{"turns", "validity"}, func(s *story) {
		calls := s.passes(20)
		n := s.begin("c1", history.OpExtend, 10, history.Event{Lock: calls[0], TTL: ms(1000)})
		s.back("c1", n, 40, history.Event{Outcome: history.OutcomeLost})
		s.enter("c1", calls[1], 1005) // By then its end has moved.
		s.extend("c1", calls[1], 1007, 1008, 1500)
		s.events[len(s.events)-2].TTL = ms(490)
	}},
	{"a process that dies with a lock that it has passed on", []string{"turns", "released"}, func(s *story) {
		n := s.passes(20)[1]
		s.begins(1)
		s.unlock("c1", n, 100, 101)
		s.dies("c1", 105)
		s.follows(1100, 10)
	}},
	{"processes that take turns", []string{"turns"}, func(s *story) { s.takesTurns("c2") }},
}
