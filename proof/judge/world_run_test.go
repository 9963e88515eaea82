package judge

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryHistoryOfAWorldIsCorrect(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	facts := make(map[string]int)
	for seed := range seeds {
		v := Judge(newWorld(seed).run())
		require.True(t, v.OK(), "%s", v)
		for _, r := range v.Rules {
			facts[r.Rule] += r.Facts
		}
	}
	t.Log(facts)
	nodes := []string{"support", "quarantine", "kept", "next in line", "released", "waiters"} // A world has none that are well.
	for _, r := range rules {
		require.True(t, facts[r.name] > 0 || slices.Contains(nodes, r.name), r.name)
	}
}
