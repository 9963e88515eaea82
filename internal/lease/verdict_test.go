package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// of is a tally of n nodes, of which the others are pending.
func of(t tally, n int) tally {
	t.pending = n - t.yes - t.no - t.silent
	return t
}

// Whatever the votes: a verdict falls when all are in, it never changes as more come in but for the better known
// reason of a failure, a yes needs a quorum of yes votes, and two rounds cannot both get one from disjoint votes.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(5), []byte{0, 1, 2, 0, 1})
	f.Add(uint8(4), []byte{0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, nodes uint8, votes []byte) {
		n := int(nodes%9) + 1
		if len(votes) < n {
			return
		}
		for name, judge := range map[string]func(tally, int) Verdict{"lock": decideLock, "raise": decideRaise, "extend": decideExtend, "unlock": decideUnlock, "release": decideRelease} {
			var seen tally
			last := judge(of(seen, n), Need(n))
			require.Equal(t, Undecided, last)
			for _, v := range votes[:n] {
				switch v % 3 {
				case 0:
					seen.yes++
				case 1:
					seen.no++
				default:
					seen.silent++
				}
				now := judge(of(seen, n), Need(n))
				if last == Granted && name != "unlock" || last == Lost || last == NoQuorum && (name == "lock" || name == "extend") || last == Taken {
					require.Equal(t, last, now)
				}
				if last != Undecided && last != Granted {
					require.NotEqual(t, Granted, now, "%s: a failure became a success: %+v", name, seen)
				}
				if last == Granted {
					require.Equal(t, Granted, now, "%s: a success became a failure: %+v", name, seen)
				}
				if now == Granted && name != "unlock" {
					require.Greater(t, 2*seen.yes, n)
				}
				if now == Granted && name == "unlock" {
					require.Greater(t, 2*(seen.yes+seen.no), n)
				}
				last = now
			}
			require.NotEqual(t, Undecided, last, "%s: all votes are in: %+v", name, seen)
		}
	})
}
