package node

import (
	"math"
	"math/rand/v2"
	"time"
)

// This file is about connections that are made anew although they work. A name may lead to another server by now,
// while the old one lives: whoever stayed there would meet nobody who has come later, for good.
//
// The new connection is made ready while the old one serves. Then a PING goes behind all that is queued, what is
// queued later waits, and with the answer to the PING, the old server's last word, the new connection takes over. So
// no outcome is unknown, and no request can arrive after its release. If anything fails, the old one goes on. Nobody
// is told: the node was up all the time. (connect.go has that.)

// renewPause is how long after an attempt that has failed the next one comes, and how often others may ask for one: they
// may be wrong.
const renewPause = 30 * time.Second

// A renewal says when a node's connection is made anew. The node's mu guards it.
type renewal struct {
	due   time.Time // zero: never
	asked time.Time // when others last had one be due
}

// begin is for a connection that begins to serve. It is made anew at an age that differs from node to node, as their
// clients connect to all at once.
func (r *renewal) begin(age time.Duration, now time.Time) {
	r.due = time.Time{}
	if age > 0 {
		r.due = now.Add(age - rand.N(age/4+1))
	}
}

// ask has one be due now, and says whether it does.
func (r *renewal) ask(now time.Time) bool {
	may := now.Sub(r.asked) >= renewPause
	if may {
		r.asked, r.due = now, now
	}
	return may
}

// wait is for how long none is due.
func (r *renewal) wait(now time.Time) time.Duration {
	if r.due.IsZero() {
		return math.MaxInt64
	}
	return r.due.Sub(now)
}
