package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func everything(string) bool { return true }

func drawn(t *testing.T, seed uint64, course string) *Plan {
	t.Helper()
	p, err := Draw(seed, course, time.Minute, everything)
	require.NoError(t, err)
	return p
}

func printed(p *Plan) string {
	var b strings.Builder
	p.Print(&b)
	return b.String()
}

func TestPlanFollowsFromItsSeed(t *testing.T) {
	for seed := range uint64(20) {
		first := printed(drawn(t, seed, "all"))
		require.Equal(t, first, printed(drawn(t, seed, "all")))
		require.NotEqual(t, first, printed(drawn(t, seed+1, "all")))
	}
	p, err := Draw(1, "all", 5*time.Minute, func(kind string) bool { return kind != Clock })
	require.NoError(t, err)
	require.False(t, p.Has(Clock), "it cannot be had here")
	require.True(t, p.Has(Kill))
}

func TestPlanHasDozensOfFaultsOfAllKinds(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(50) {
		p := drawn(t, seed, "all")
		require.GreaterOrEqual(t, len(p.Faults), 24, "seed %d", seed)
		for _, f := range p.Faults {
			seen[f.Kind] = true
			require.Zero(t, f.At%readable)
			require.LessOrEqual(t, f.At+f.For, p.Duration)
		}
	}
	require.Len(t, seen, len(Courses["all"]))
	for _, name := range Names() {
		drawn(t, 1, name)
	}
}

// What the library promises depends on these.
func TestPlanAsksForNothingThatIsNotPromised(t *testing.T) {
	for seed := range uint64(200) {
		p := drawn(t, seed, "all")
		if p.Has(Empty) || p.Has(Stale) || p.Has(Flush) || p.Sets != nil {
			require.Positive(t, p.MaxTTL, "nodes lose their data, so there must be quarantine")
		}
		for _, f := range p.Faults {
			require.False(t, p.Nodes < 3 && slices.Contains([]string{Empty, Stale, Lag, Stutter, Split}, f.Kind), "there is no minority")
		}
		last := p.Nodes - 1
		for i, f := range p.Faults {
			switch f.Kind {
			case Empty, Stale:
				require.NotEqual(t, last, f.Node, "its clock was set back")
			case Rate:
				require.LessOrEqual(t, f.Amount.Abs(), maxRate)
				require.Zero(t, f.At, "all its life")
			case Away, Oneway:
				require.Positive(t, f.Client)
				require.NotEmpty(t, f.How)
			case Clock:
				require.Equal(t, last, f.Node)
				require.Positive(t, f.Amount, "clocks are set back only")
			case Raise:
				require.GreaterOrEqual(t, f.Amount, p.TTL)
			case Crash:
				require.NotEqual(t, 1, f.Client, "it admits nodes")
			}
			if forgets := []string{Empty, Stale}; slices.Contains(forgets, f.Kind) {
				away := slices.DeleteFunc(slices.Clone(p.Faults[i+1:]), func(g Fault) bool {
					return !slices.Contains(forgets, g.Kind) || g.At > f.At+f.For+p.MaxTTL+time.Second
				})
				require.LessOrEqual(t, len(away), (p.Nodes-1)/2-1, "only a minority is in quarantine: seed %d", seed)
			}
		}
	}
}
