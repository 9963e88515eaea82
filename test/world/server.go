// Package world has the rules of one node (internal/node) run beside a network and a server that the tests play. A
// search tries what may happen, in any order, and holds each state against what must never be.
package world

import (
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// A Server is what a node stores for one resource, and what its scripts do. Package redlock's
// TestServerIsTheScripts compares it with the Lua, and with the SET that stands for a lock request.
type Server struct {
	Token int           // whose the key is; 0: there is none
	Until time.Duration // until when
}

// Expire has the key end if it is due.
func (s *Server) Expire(now time.Duration) {
	if s.Until <= now {
		*s = Server{}
	}
}

// Lock is lock.lua.
func (s *Server) Lock(token int, until time.Duration) node.Stance {
	switch s.Token {
	case 0:
		*s = Server{token, until}
		return node.Yes
	case token:
		return node.Yes
	}
	return node.No
}

// Extend is extend.lua.
func (s *Server) Extend(token int, until time.Duration) node.Stance {
	switch s.Token {
	case token:
		s.Until = max(s.Until, until)
		return node.Yes
	case 0:
		return node.Gone
	}
	return node.No
}

// Repair is repair.lua.
func (s *Server) Repair(token int, until time.Duration) node.Stance {
	if s.Token != 0 && s.Token != token {
		return node.No
	}
	*s = Server{token, max(s.Until, until)}
	return node.Yes
}

// Release is unlock.lua.
func (s *Server) Release(token int) node.Stance {
	if s.Token != token {
		return node.Gone
	}
	*s = Server{}
	return node.Yes
}

// Leave is unlock.lua, where it leaves the key until then.
func (s *Server) Leave(token int, until time.Duration) node.Stance {
	if s.Token != token {
		return node.Gone
	}
	s.Until = min(s.Until, until)
	return node.Yes
}
