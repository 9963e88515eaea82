package redlock

import (
	"math"
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

func TestDecideLock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
		{5, tally{}, undecided},
		{5, tally{yes: 2, no: 2}, undecided},
		{5, tally{yes: 3}, granted},
		{5, tally{yes: 3, no: 2}, granted},
		{5, tally{no: 3}, taken},
		{5, tally{no: 1, unanswered: 2}, taken},
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
	} {
		assert.Equal(t, c.want, decideLock(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideExtendProvesALossOnlyByAnswers(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
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
	} {
		assert.Equal(t, c.want, decideExtend(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideUnlock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
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
	} {
		assert.Equal(t, c.want, decideUnlock(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
}

func TestDecideReleaseCountsOnlyNodesThatHadTheLock(t *testing.T) {
	for _, c := range []struct {
		n    int
		t    tally
		want verdict
	}{
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
	} {
		assert.Equal(t, c.want, decideRelease(c.t, quorum(c.n), c.n), "n=%d %+v", c.n, c.t)
	}
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
		for name, judge := range map[string]func(tally, int, int) verdict{"lock": decideLock, "extend": decideExtend, "unlock": decideUnlock, "release": decideRelease} {
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
				if last == granted && name != "unlock" || last == lost || last == noQuorum && name == "extend" {
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

func TestDrift(t *testing.T) {
	assert.Equal(t, 102*time.Millisecond, drift(10*time.Second, 0.01))
	assert.Equal(t, 2*time.Millisecond, drift(10*time.Second, 0))
	assert.Equal(t, 9898*time.Millisecond, validity(10*time.Second, 0.01))
	assert.Equal(t, int64(1), serverMillis(time.Millisecond))
	assert.Equal(t, int64(2), serverMillis(time.Millisecond+1))
	assert.Equal(t, int64(2), serverMillis(2*time.Millisecond))
}

// The validity never exceeds what the node was told, with any clocks whose
// rates differ by less than the factor.
func FuzzDrift(f *testing.F) {
	f.Add(int64(10*time.Second), 0.01)
	f.Add(int64(math.MaxInt64), 0.999)
	f.Fuzz(func(t *testing.T, ns int64, factor float64) {
		d := time.Duration(ns)
		if d < time.Millisecond || math.IsNaN(factor) || factor < 0 || factor >= 1 {
			return
		}
		v := validity(d, factor)
		require.Less(t, v, d)
		ms := serverMillis(d)
		require.GreaterOrEqual(t, ms, int64(d/time.Millisecond))
		require.LessOrEqual(t, ms-int64(d/time.Millisecond), int64(1))
		if v > 0 {
			require.LessOrEqual(t, float64(v), float64(d)*(1-factor)+1)
		}
	})
}

func TestValidityLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, pace, want time.Duration }{
		{250 * ms, ms, 100 * ms},
		{250 * ms, 20 * ms, 160 * ms},
		{250 * ms, 100 * ms, 250 * ms},
		{50 * ms, 20 * ms, 50 * ms},
		{time.Minute, 20 * ms, 160 * ms},
	} {
		assert.Equal(t, c.want, splitLimit(c.timeout, c.pace), "node timeout %v, pace %v", c.timeout, c.pace)
	}
}

// For how long a quorum of keys lives, of which one has no expiry.
func TestQuorumOfKeysHasALife(t *testing.T) {
	assert.Equal(t, 2*time.Second, needed([]time.Duration{time.Second, -1, 2 * time.Second}, 2))
}
