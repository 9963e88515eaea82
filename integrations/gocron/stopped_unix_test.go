//go:build unix

package redlockgocron

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Three processes, of which one is stopped at each tick for longer than the node timeout: it may have come first.
func TestEachTickIsRunThoughAProcessIsStopped(t *testing.T) {
	t.Parallel()
	testkit.AwaitCalm(t) // A tick for which nobody has time within the node timeout is missed.
	cluster := testcluster.RunServers(t, 5)
	processes := make([]*child.Process, 3)
	for i := range processes {
		processes[i] = start(t, "ticks", cluster)
	}
	for tick := range 6 {
		for _, p := range processes {
			p.GoOn()
		}
		stopped := processes[tick%3]
		time.Sleep(time.Duration(tick) * 200 * time.Microsecond) // At various places.
		stopped.Stop()
		time.Sleep(400 * time.Millisecond)
		stopped.Continue()
		ran := map[string]int{}
		for _, p := range processes {
			for line := p.Line(); line != "over"; line = p.Line() {
				if name, ok := strings.CutPrefix(line, "ran "); ok {
					ran[name]++
				}
			}
		}
		require.Len(t, ran, jobs, "missed at tick %d", tick)
		for name, times := range ran {
			require.Equal(t, 1, times, name)
		}
	}
	for _, p := range processes {
		p.End()
	}
}
