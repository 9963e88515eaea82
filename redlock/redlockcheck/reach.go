package redlockcheck

import (
	"errors"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
)

// slowShare is the divisor of the node timeout that bounds a good round trip. That leaves room for a connection to be
// made, and for slower round trips.
const slowShare = 4

// reachable distinguishes a node that does not answer from one that is too slow for all the questions.
func (s *survey) reachable(f *facts) Finding {
	switch {
	case f.down == nil:
		return fine("it answers")
	case f.rtt > s.NodeTimeout:
		return s.roundTrip(f)
	case f.spent:
		return amiss(Unknown, "Let the pool have another connection",
			"it was not asked, as all connections of its pool are in use: %s", words(f.down.Error()))
	case errors.Is(f.down, errNoReply):
		return amiss(Unfit, "Look whether it hangs, or is so far away that the node timeout is too short (WithNodeTimeout, --node-timeout)",
			"it accepts a connection, and does not answer: %s", words(f.down.Error()))
	case conn.IsRefusal(f.down):
		return amiss(Unfit, "It runs: see what it says. In protected mode it wants a password (requirepass, or an ACL)",
			"it refuses the connection: %s", words(f.down.Error()))
	default:
		return amiss(Unfit, "Look whether it runs, and whether address, network, password and TLS are right",
			"it does not answer: %s", words(f.down.Error()))
	}
}

func (s *survey) roundTrip(f *facts) Finding {
	rtt, timeout := brief.Duration(f.rtt), brief.Duration(s.NodeTimeout)
	const advice = "Raise the node timeout to at least four round trips (WithNodeTimeout, --node-timeout), or use a node that is nearer"
	switch {
	case f.rtt > s.NodeTimeout:
		return amiss(Unfit, advice, "it answers too late: a round trip takes %s, and its votes come after the node timeout of %s", rtt, timeout)
	case f.rtt > s.NodeTimeout/slowShare:
		return amiss(Warning, advice, "a round trip takes %s, which is much of the node timeout of %s", rtt, timeout)
	default:
		return fine("a round trip takes %s", rtt)
	}
}

func (s *survey) database(f *facts) Finding {
	if f.astray == nil {
		return fine("its connections are in the database where locks are")
	}
	return amiss(Unfit, "Select no database on the pool's connections, or name the pool's database with InDatabase",
		"%s", words(f.astray.Error()))
}
