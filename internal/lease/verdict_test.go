package lease

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// of is a tally of n nodes, of which the others are pending.
func of(t tally, n int) tally {
	t.pending = n - t.yes - t.no - t.silent
	return t
}

type verdictCase struct {
	n    int
	t    tally
	want Verdict
}

func checkVerdicts(t *testing.T, decide func(t tally, need int) Verdict, cases []verdictCase) {
	t.Helper()
	for _, c := range cases {
		assert.Equal(t, c.want, decide(of(c.t, c.n), Need(c.n)), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideLock(t *testing.T) {
	checkVerdicts(t, decideLock, []verdictCase{
		{5, tally{}, Undecided},
		{5, tally{yes: 2, no: 2}, Undecided},
		{5, tally{yes: 3}, Granted},
		{5, tally{yes: 3, no: 2}, Granted},
		{5, tally{no: 3}, Taken},
		{5, tally{no: 1, silent: 2}, Undecided}, // The two that are out may be silent, too.
		{5, tally{no: 2, silent: 1}, Undecided},
		{5, tally{yes: 1, no: 2, silent: 1}, Taken},
		{5, tally{yes: 1, no: 1, silent: 2}, Undecided},
		{5, tally{yes: 2, no: 1, silent: 2}, Taken},
		{3, tally{no: 1, silent: 1}, Undecided},
		{3, tally{yes: 1, no: 1, silent: 1}, Taken},
		{3, tally{no: 2}, Taken},
		{5, tally{silent: 3}, NoQuorum},
		{5, tally{no: 2, silent: 3}, NoQuorum},
		{5, tally{yes: 2, silent: 3}, NoQuorum},
		{4, tally{yes: 2, no: 1}, Undecided},
		{4, tally{yes: 2, no: 2}, Taken}, // Two against two ends.
		{4, tally{yes: 2, silent: 2}, NoQuorum},
		{4, tally{yes: 2, silent: 1}, Undecided},
		{2, tally{yes: 1}, Undecided},
		{2, tally{yes: 1, no: 1}, Taken},
		{2, tally{yes: 1, silent: 1}, NoQuorum},
		{1, tally{yes: 1}, Granted},
		{1, tally{no: 1}, Taken},
		{1, tally{silent: 1}, NoQuorum},
	})
}

// A raise ends as soon as it cannot succeed, since others may still be raised.
func TestDecideRaise(t *testing.T) {
	checkVerdicts(t, decideRaise, []verdictCase{
		{5, tally{yes: 2, no: 2}, Undecided},
		{5, tally{no: 1, silent: 2}, NoQuorum},
		{5, tally{no: 3}, Taken},
		{3, tally{no: 1, silent: 1}, NoQuorum},
		{3, tally{yes: 1, no: 1, silent: 1}, Taken},
	})
}

func TestDecideExtendProvesALossOnlyByAnswers(t *testing.T) {
	checkVerdicts(t, decideExtend, []verdictCase{
		{5, tally{no: 3}, Lost},
		{5, tally{no: 2, silent: 1}, Undecided}, // The two that are out may prove it Lost.
		{5, tally{yes: 1, no: 2, silent: 1}, Undecided},
		{5, tally{yes: 2, no: 2, silent: 1}, NoQuorum},
		{5, tally{no: 3, silent: 1}, Lost},
		{5, tally{silent: 3}, NoQuorum},
		{5, tally{yes: 3, no: 2}, Granted},
		{4, tally{no: 2}, Lost},
		{4, tally{no: 1, silent: 1}, Undecided},
		{4, tally{yes: 2, no: 1, silent: 1}, NoQuorum},
		{3, tally{no: 1, silent: 1}, Undecided},
		{3, tally{yes: 1, no: 1, silent: 1}, NoQuorum},
		{3, tally{silent: 2}, NoQuorum},
	})
}

func TestDecideUnlock(t *testing.T) {
	checkVerdicts(t, decideUnlock, []verdictCase{
		{5, tally{yes: 3}, Granted},
		{5, tally{yes: 2, no: 1}, Undecided}, // The two that are out may make it Lost.
		{5, tally{yes: 2, no: 1, silent: 1}, Granted},
		{5, tally{yes: 2, no: 2}, Undecided},
		{5, tally{yes: 2, no: 2, silent: 1}, Granted},
		{5, tally{yes: 2, no: 3}, Lost},
		{5, tally{no: 3}, Lost},
		{5, tally{yes: 2, silent: 3}, NoQuorum},
		{5, tally{yes: 1, no: 1, silent: 3}, NoQuorum},
		{2, tally{yes: 1, no: 1}, Lost},
		{1, tally{no: 1}, Lost},
		{1, tally{yes: 1}, Granted},
	})
}

func TestDecideReleaseCountsOnlyNodesThatHadTheLock(t *testing.T) {
	checkVerdicts(t, decideRelease, []verdictCase{
		{5, tally{yes: 3}, Granted},
		{5, tally{yes: 2, no: 2}, Undecided},
		{5, tally{yes: 2, no: 2, silent: 1}, NoQuorum}, // The silent one could make it either.
		{5, tally{yes: 2, no: 1, silent: 1}, Undecided},
		{5, tally{yes: 2, no: 3}, Lost},
		{5, tally{no: 3}, Lost},
		{5, tally{silent: 3}, NoQuorum},
		{5, tally{no: 2, silent: 2}, Undecided}, // The last one may make it Lost.
		{5, tally{no: 2, silent: 3}, NoQuorum},
		{3, tally{yes: 1, no: 1, silent: 1}, NoQuorum},
		{3, tally{yes: 1, no: 1}, Undecided},
		{4, tally{yes: 2, no: 1}, Undecided},
		{4, tally{yes: 2, no: 2}, Lost},
		{4, tally{yes: 2, no: 1, silent: 1}, NoQuorum},
		{2, tally{yes: 1, silent: 1}, NoQuorum},
		{2, tally{yes: 1, no: 1}, Lost},
		{1, tally{no: 1}, Lost},
		{1, tally{yes: 1}, Granted},
		{1, tally{silent: 1}, NoQuorum},
	})
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
