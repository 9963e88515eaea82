package judge

import (
	"github.com/seed6c881748/redlock/proof/history"
)

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

// guarded, wants and cancelled are always about locks of c1.
func (s *story) guarded(lock int, from, to int64, ok bool) {
	s.add(history.Event{
		At: ms(from), End: ms(to), Kind: history.Guarded, Client: "c1", Lock: lock, Resources: []string{"g"},
		Fence: s.fences[id{"c1", lock}], OK: ok,
	})
}

func (s *story) wants(lock int, at int64, told bool) {
	s.add(history.Event{At: ms(at), Kind: history.Wanted, Client: "c1", Lock: lock, OK: told})
}

// cancelled ends a hold whose lock goes on until then.
func (s *story) cancelled(lock int, at, until int64) {
	s.add(history.Event{
		At: ms(at), Kind: history.Lost, Client: "c1", Lock: lock, Until: ms(until), Outcome: history.OutcomeCancelled,
	})
}

// held is a lock until 999 that is kept from 6 on.
func (s *story) held(asks history.Event) int {
	asks.Resources = []string{"a"}
	n := s.with("c1", 0, 5, 999, 1, asks)
	s.keep("c1", n, 6)
	return n
}

var brokenFeatures = []tale{
	{"a hold beyond its max hold", []string{"hold limits"}, func(s *story) {
		n := s.held(history.Event{MaxHold: ms(300)})
		s.cancelled(n, 356, 999)
		s.unlock("c1", n, 400, 405)
	}},
	{"a hold beyond its max hold, which is unlocked", []string{"hold limits"}, func(s *story) {
		s.unlock("c1", s.held(history.Event{MaxHold: ms(300)}), 400, 405)
	}},
	{"a hold that never ends", []string{"hold limits", "loss signal"}, func(s *story) { s.held(history.Event{MaxHold: ms(300)}) }},
	{"a hold that ends too late to stop", []string{"hold limits"}, func(s *story) {
		n := s.held(history.Event{StopTime: ms(400)})
		s.cancelled(n, 650, 999)
		s.unlock("c1", n, 700, 705)
	}},
	{"a holder does not hear who waits", []string{"wanted"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.wants(n, 10, false)
		q := s.ask("c1", 20, "a")
		s.wait("c1", q, 22)
		s.wants(n, 80, true)
		s.unlock("c1", n, 90, 91)
		s.got("c1", q, 95, 1080, 2)
	}},
	{"three have one of two", []string{"permits", "overlap"}, func(s *story) {
		s.permit("c1", "0", 0, 5, 1)
		s.permit("c2", "1", 0, 6, 1)
		s.permit("c3", "1", 300, 305, 2)
	}},
	{"three have one of two, each another", []string{"permits"}, func(s *story) {
		s.permit("c1", "0", 0, 5, 1)
		s.permit("c2", "1", 0, 6, 1)
		s.permit("c3", "2", 300, 305, 1)
	}},
	{"three in a period", []string{"permits"}, func(s *story) {
		for i, slot := range []string{"0", "1", "2"} {
			at := int64(i) * 80
			s.unlock("c1", s.permit("c1", slot, at, at+5, 1), at+6, at+8)
		}
	}},
	{"a Guard lets an earlier holder pass", []string{"guard"}, func(s *story) {
		one, two := s.lock("c1", 0, 5, 1, "g"), s.lock("c1", 1000, 1005, 2, "g")
		s.guarded(two, 1010, 1011, true)
		s.guarded(one, 1012, 1013, true)
	}},
	{"a Guard lets two pass at one time", []string{"guard"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "g")
		s.guarded(n, 10, 20, true)
		s.guarded(n, 19, 22, true)
	}},
	{"a Guard refuses who is first", []string{"guard"}, func(s *story) {
		s.guarded(s.lock("c1", 0, 5, 1, "g"), 10, 11, false)
	}},
	{"another client has other nodes", []string{"sets"}, func(s *story) {
		s.add(history.Event{Kind: history.Up, Client: "c1"})
		s.add(history.Event{At: ms(5), Kind: history.Sets, Client: "c1", Err: "c2 has d instead of c"})
	}},
}

var correctFeatures = []tale{
	{"extensions by any ttl", []string{"validity"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		for at, ttl := range map[int64]int64{100: 200, 110: 1500, 120: 20} {
			call := s.begin("c1", history.OpExtend, at, history.Event{Lock: n, TTL: ms(ttl)})
			s.back("c1", call, at+5, history.Event{OK: true, Until: ms(max(999, map[bool]int64{true: 1609}[at >= 110]))})
		}
		s.stall("c1", 790, 960)
		s.extend("c1", n, 800, 960, 1950) // Its start may be as late.
		s.lock("c2", 1940, 1951, 2, "a")
	}},
	{"holds that end in time", []string{"hold limits"}, func(s *story) {
		n := s.held(history.Event{MaxHold: ms(300), StopTime: ms(500)})
		s.cancelled(n, 340, 999)
		s.unlock("c1", n, 900, 905)
		late := s.with("c1", 2000, 2005, 2999, 2, history.Event{Resources: []string{"a"}, StopTime: ms(400)})
		s.keep("c1", late, 2800) // Then it is told at once.
		s.cancelled(late, 2801, 2999)
		s.unlock("c1", late, 2810, 2815)
		stood := s.with("c1", 4000, 4005, 4999, 3, history.Event{Resources: []string{"a"}, MaxHold: ms(100)})
		s.keep("c1", stood, 4006)
		s.freeze("c1", 4050, 4600)
		s.unlock("c1", stood, 4640, 4645)
		s.keep("c2", s.with("c2", 6000, 6005, 6999, 4, history.Event{Resources: []string{"a"}, MaxHold: ms(100)}), 6006)
		s.dies("c2", 6100)
	}},
	{"holders hear who waits, or are gone", []string{"wanted"}, func(s *story) {
		n := s.lock("c1", 0, 5, 1, "a")
		s.wants(n, 10, false)
		q := s.ask("c1", 20, "a")
		s.wait("c1", q, 22)
		s.wants(n, 60, true)
		s.unlock("c1", n, 90, 91)
		s.got("c1", q, 95, 1080, 2)
		s.wants(q, 100, false)
		w := s.ask("c1", 110, "a")
		s.wait("c1", w, 111)
		s.wait("c2", s.ask("c2", 105, "a"), 106) // It hears of that at an extension.
		s.unlock("c1", q, 140, 141)
		s.got("c1", w, 145, 1140, 3)
		s.dies("c2", 150)
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
	{"a process is killed, and somebody says so when its max hold is over", nil, func(s *story) {
		n := s.with("c1", 0, 5, 999, 1, history.Event{Resources: []string{"a"}, MaxHold: ms(500)})
		s.keep("c1", n, 6)
		s.add(history.Event{At: ms(400), Kind: history.FaultBegin, Fault: "crash", Client: "c1"})
		s.dies("c1", 700)
	}},
	{"a Guard lets holders pass, and refuses earlier ones", []string{"guard"}, func(s *story) {
		one, two := s.lock("c1", 0, 5, 1, "g"), s.lock("c1", 1000, 1005, 2, "g")
		s.guarded(one, 900, 901, true)
		s.guarded(one, 902, 905, true)
		s.guarded(one, 1009, 1012, false)
		s.guarded(two, 1010, 1011, true)
		s.guarded(two, 1020, 1021, true)
	}},
	{"a set grows by a node", []string{"sets"}, func(s *story) {
		s.add(history.Event{Kind: history.Up, Client: "c1"})
		s.add(history.Event{At: ms(5), Kind: history.Sets, Client: "c1", OK: true, Err: "c2 also has d"})
	}},
}
