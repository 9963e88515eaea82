// Package server is what a node stores, and what its scripts do, for the searches that run the rules of a node
// (test/world) and of rounds (test/quorum).
package server

import (
	"math"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// Resources is how many a Server has keys of. A request wants some of them: a set, as bits.
const Resources = 2

// A Server is what a node stores, by resource. Package redlock's TestServerIsTheScripts compares it with the Lua, and
// with the SET that stands for a lock request.
type Server [Resources]Key

// A Key is what is stored for one resource.
type Key struct {
	Token   int           // whose the lock's key is; 0: there is none
	Until   time.Duration // until when
	Counter int64         // of fences; 0: there is none
}

func in(wants uint8, r int) bool { return wants>>r&1 != 0 }

// Look returns whether the server holds the token for all that is wanted, and for some of it; the first other token that
// holds some of it; and the largest and the smallest of the counters.
func (s *Server) Look(token int, wants uint8) (all, some bool, other int, top, low int64) {
	all, low = true, math.MaxInt64
	for r, k := range s {
		if !in(wants, r) {
			continue
		}
		all, some = all && k.Token == token, some || k.Token == token
		if k.Token != token && other == 0 {
			other = k.Token
		}
		top, low = max(top, k.Counter), min(low, k.Counter)
	}
	return all, some, other, top, low
}

// Expire has the keys end that are due.
func (s *Server) Expire(now time.Duration) {
	for r := range s {
		if s[r].Until <= now {
			s[r].Token, s[r].Until = 0, 0
		}
	}
}

// Lock is lock.lua. A refusal names the holder.
func (s *Server) Lock(token int, wants uint8, until time.Duration) (stance node.Stance, holder int) {
	if _, _, other, _, _ := s.Look(token, wants); other != 0 {
		return node.No, other
	}
	s.set(token, wants, until, false)
	return node.Yes, 0
}

// A Grant is the answer to a lock request with fencing, or to a raise, that tells.
type Grant struct {
	node.Stance
	Fence, Found int64 // of a yes, as node.Outcome has them
	Holder       int   // of a no; 0: none is named
}

// LockWithFence is fencedLock.lua, for a proposal that the server's clock does not forbid. It is silent if counters were
// lost.
func (s *Server) LockWithFence(token int, wants uint8, until time.Duration, proposal int64) Grant {
	all, _, other, top, low := s.Look(token, wants)
	switch {
	case other != 0:
		return Grant{Stance: node.No, Holder: other}
	case all && (low < top || top < 1):
		return Grant{Stance: node.Silent}
	case all:
		return Grant{Stance: node.Yes, Fence: top}
	}
	fence := max(top+1, proposal)
	s.set(token, wants, until, false)
	s.count(wants, fence)
	if low == 0 {
		top = 0
	}
	return Grant{Stance: node.Yes, Fence: fence, Found: top}
}

// Raise is raise.lua.
func (s *Server) Raise(token int, wants uint8, fence int64) Grant {
	all, _, _, top, _ := s.Look(token, wants)
	if !all || top > fence {
		return Grant{Stance: node.No}
	}
	s.count(wants, fence)
	return Grant{Stance: node.Yes, Fence: fence, Found: top}
}

// Extend is extend.lua. Without fencing, the fence is 0.
func (s *Server) Extend(token int, wants uint8, until time.Duration, fence int64) node.Stance {
	switch all, _, other, _, _ := s.Look(token, wants); {
	case other != 0:
		return node.No
	case !all:
		return node.Gone
	}
	s.set(token, wants, until, true)
	s.count(wants, fence)
	return node.Yes
}

// Repair is repair.lua. Without fencing, the fence is 0.
func (s *Server) Repair(token int, wants uint8, until time.Duration, fence int64) node.Stance {
	if _, _, other, _, _ := s.Look(token, wants); other != 0 {
		return node.No
	}
	s.set(token, wants, until, true)
	s.count(wants, fence)
	return node.Yes
}

// Release is unlock.lua.
func (s *Server) Release(token int, wants uint8) node.Stance { return s.Leave(token, wants, 0) }

// Leave is unlock.lua, where it leaves the keys until then.
func (s *Server) Leave(token int, wants uint8, until time.Duration) node.Stance {
	all, _, _, _, _ := s.Look(token, wants)
	for r := range s {
		if k := &s[r]; in(wants, r) && k.Token == token {
			if k.Until = min(k.Until, until); until == 0 {
				k.Token = 0
			}
		}
	}
	if !all {
		return node.Gone
	}
	return node.Yes
}

// set has the server hold the token. Keys that it has live on as they do, unless they are extended.
func (s *Server) set(token int, wants uint8, until time.Duration, extends bool) {
	for r := range s {
		switch k := &s[r]; {
		case !in(wants, r):
		case k.Token != token:
			k.Token, k.Until = token, until
		case extends:
			k.Until = max(k.Until, until)
		}
	}
}

// count has the counters be at least so large.
func (s *Server) count(wants uint8, fence int64) {
	for r := range s {
		if in(wants, r) {
			s[r].Counter = max(s[r].Counter, fence)
		}
	}
}
