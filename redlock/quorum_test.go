package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuorumIsAStrictMajorityOfTheConfiguredNodes(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		assert.Equal(t, want, quorum(n), "n=%d", n)
	}
}

type verdictCase struct {
	n    int
	t    tally
	want verdict
}

func checkVerdicts(t *testing.T, decide func(t tally, need, n int) verdict, cases []verdictCase) {
	t.Helper()
	for _, c := range cases {
		assert.Equal(t, c.want, decide(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideLock(t *testing.T) {
	checkVerdicts(t, decideLock, []verdictCase{
		{5, tally{}, undecided},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 3, no: 2}, granted},
		{5, tally{no: 3}, taken},
		{5, tally{no: 1, unanswered: 2}, undecided}, // The two that are out may be silent, too.
		{5, tally{no: 2, unanswered: 1}, undecided},
		{5, tally{yes: 1, no: 2, unanswered: 1}, taken},
		{5, tally{yes: 1, no: 1, unanswered: 2}, undecided},
		{5, tally{yes: 2, no: 1, unanswered: 2}, taken},
		{3, tally{no: 1, unanswered: 1}, undecided},
		{3, tally{yes: 1, no: 1, unanswered: 1}, taken},
		{3, tally{no: 2}, taken},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{no: 2, unanswered: 3}, noQuorum},
		{5, tally{yes: 2, unanswered: 3}, noQuorum},
		{4, tally{yes: 2, no: 1}, undecided},
		{4, tally{yes: 2, no: 2}, taken}, // Two against two ends.
		{4, tally{yes: 2, unanswered: 2}, noQuorum},
		{4, tally{yes: 2, unanswered: 1}, undecided},
		{2, tally{yes: 1}, undecided},
		{2, tally{yes: 1, no: 1}, taken},
		{2, tally{yes: 1, unanswered: 1}, noQuorum},
		{1, tally{yes: 1}, granted},
		{1, tally{no: 1}, taken},
		{1, tally{unanswered: 1}, noQuorum},
	})
}

// A raise ends as soon as it cannot succeed, since others may still be raised.
func TestDecideRaise(t *testing.T) {
	checkVerdicts(t, decideRaise, []verdictCase{
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{no: 1, unanswered: 2}, noQuorum},
		{5, tally{no: 3}, taken},
		{3, tally{no: 1, unanswered: 1}, noQuorum},
		{3, tally{yes: 1, no: 1, unanswered: 1}, taken},
	})
}

func TestDecideExtendProvesALossOnlyByAnswers(t *testing.T) {
	checkVerdicts(t, decideExtend, []verdictCase{
		{5, tally{no: 3}, lost},
		{5, tally{no: 2, unanswered: 1}, undecided}, // The two that are out may prove it lost.
		{5, tally{yes: 1, no: 2, unanswered: 1}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, noQuorum},
		{5, tally{no: 3, unanswered: 1}, lost},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{yes: 3, no: 2}, granted},
		{4, tally{no: 2}, lost},
		{4, tally{no: 1, unanswered: 1}, undecided},
		{4, tally{yes: 2, no: 1, unanswered: 1}, noQuorum},
		{3, tally{no: 1, unanswered: 1}, undecided},
		{3, tally{yes: 1, no: 1, unanswered: 1}, noQuorum},
		{3, tally{unanswered: 2}, noQuorum},
	})
}

func TestDecideUnlock(t *testing.T) {
	checkVerdicts(t, decideUnlock, []verdictCase{
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 2, no: 1}, undecided}, // The two that are out may make it lost.
		{5, tally{yes: 2, no: 1, unanswered: 1}, granted},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, granted},
		{5, tally{yes: 2, no: 3}, lost},
		{5, tally{no: 3}, lost},
		{5, tally{yes: 2, unanswered: 3}, noQuorum},
		{5, tally{yes: 1, no: 1, unanswered: 3}, noQuorum},
		{2, tally{yes: 1, no: 1}, lost},
		{1, tally{no: 1}, lost},
		{1, tally{yes: 1}, granted},
	})
}

func TestDecideReleaseCountsOnlyNodesThatHadTheLock(t *testing.T) {
	checkVerdicts(t, decideRelease, []verdictCase{
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 2, no: 2, unanswered: 1}, noQuorum}, // The silent one could make it either.
		{5, tally{yes: 2, no: 1, unanswered: 1}, undecided},
		{5, tally{yes: 2, no: 3}, lost},
		{5, tally{no: 3}, lost},
		{5, tally{unanswered: 3}, noQuorum},
		{5, tally{no: 2, unanswered: 2}, undecided}, // The last one may make it lost.
		{5, tally{no: 2, unanswered: 3}, noQuorum},
		{3, tally{yes: 1, no: 1, unanswered: 1}, noQuorum},
		{3, tally{yes: 1, no: 1}, undecided},
		{4, tally{yes: 2, no: 1}, undecided},
		{4, tally{yes: 2, no: 2}, lost},
		{4, tally{yes: 2, no: 1, unanswered: 1}, noQuorum},
		{2, tally{yes: 1, unanswered: 1}, noQuorum},
		{2, tally{yes: 1, no: 1}, lost},
		{1, tally{no: 1}, lost},
		{1, tally{yes: 1}, granted},
		{1, tally{unanswered: 1}, noQuorum},
	})
}

// Whatever the votes: a verdict falls when all are in, it never changes as
// more come in but for the better known reason of a failure, a yes needs a
// quorum of yes votes, and two rounds cannot both get one from disjoint votes.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(5), []byte{0, 1, 2, 0, 1})
	f.Add(uint8(4), []byte{0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, nodes uint8, votes []byte) {
		n := int(nodes%9) + 1
		if len(votes) < n {
			return
		}
		for name, judge := range map[string]func(tally, int, int) verdict{"lock": decideLock, "raise": decideRaise, "extend": decideExtend, "unlock": decideUnlock, "release": decideRelease} {
			var seen tally
			last := judge(seen, quorum(n), n)
			require.Equal(t, undecided, last)
			for _, v := range votes[:n] {
				switch v % 3 {
				case 0:
					seen.yes++
				case 1:
					seen.no++
				default:
					seen.unanswered++
				}
				now := judge(seen, quorum(n), n)
				if last == granted && name != "unlock" || last == lost || last == noQuorum && (name == "lock" || name == "extend") || last == taken {
					require.Equal(t, last, now)
				}
				if last != undecided && last != granted {
					require.NotEqual(t, granted, now, "%s: a failure became a success: %+v", name, seen)
				}
				if last == granted {
					require.Equal(t, granted, now, "%s: a success became a failure: %+v", name, seen)
				}
				if now == granted && name != "unlock" {
					require.Greater(t, 2*seen.yes, n)
				}
				if now == granted && name == "unlock" {
					require.Greater(t, 2*(seen.yes+seen.no), n)
				}
				last = now
			}
			require.NotEqual(t, undecided, last, "%s: all votes are in: %+v", name, seen)
		}
	})
}

// For how long a quorum of keys lives, of which one has no expiry.
func TestQuorumOfKeysHasALife(t *testing.T) {
	assert.Equal(t, 2*time.Second, needed([]time.Duration{time.Second, -1, 2 * time.Second}, 2))
}
