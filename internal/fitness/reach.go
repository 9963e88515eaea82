package fitness

import (
	"fmt"

	"github.com/seed6c881748/redlock/internal/brief"
)

// Whether a node is reached, how soon, and in which database.

// slowShare is the share of the node timeout that a round trip may take: that
// leaves room for a connection to be made, and for what is slower than the best.
const slowShare = 4

func (s *Setup) reachable(f *facts) Finding {
	switch {
	case f.down == nil:
		return fine("it answers")
	case f.alive:
		return amiss(Unknown, "it answers on the connection that locks use, but there is no other to ask it on: "+words(f.down.Error()),
			"Let the pool have another connection")
	default:
		return amiss(Unfit, "it does not answer: "+words(f.down.Error()),
			"Look whether it runs, and whether address, network, password and TLS are right")
	}
}

func (s *Setup) roundTrip(f *facts) Finding {
	rtt, timeout := brief.Duration(f.rtt), brief.Duration(s.NodeTimeout)
	const advice = "Raise the node timeout to at least four round trips (WithNodeTimeout, --node-timeout), or use a node that is nearer"
	switch {
	case f.rtt > s.NodeTimeout:
		return amiss(Unfit, fmt.Sprintf("a round trip takes %s, and its votes come after the node timeout of %s", rtt, timeout), advice)
	case f.rtt > s.NodeTimeout/slowShare:
		return amiss(Warning, fmt.Sprintf("a round trip takes %s, which is much of the node timeout of %s", rtt, timeout), advice)
	default:
		return fine("a round trip takes %s", rtt)
	}
}

func (s *Setup) database(f *facts) Finding {
	if f.astray == nil {
		return fine("its connections are in the database where locks are")
	}
	return amiss(Unfit, words(f.astray.Error()),
		"Select no database on the pool's connections, or name the pool's database with InDatabase")
}
