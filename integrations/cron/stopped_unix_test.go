//go:build unix

package redlockcron

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Three processes, of which one is stopped at each tick for longer than the node timeout: before it has asked, while it
// asks, or when it has the lock. REDLOCK_CRON_TICKS=500 is the long form, with a tick a second: it bears 200 ms that a
// busy machine adds to a standstill of 400 ms. With a tick in two seconds it is 900 ms.
func TestEachTickIsRunThoughAProcessIsStopped(t *testing.T) {
	t.Parallel()
	ticks, period := 10, 2*time.Second
	if text := os.Getenv("REDLOCK_CRON_TICKS"); text != "" {
		var err error
		ticks, err = strconv.Atoi(text)
		require.NoError(t, err)
		period = time.Second
	} else if testing.Short() {
		ticks = 4
	}
	s := startSchedule(t, testcluster.RunServers(t, 5), 3, ticks, period)
	for i := range ticks {
		// From 5 ms before the tick to 10 ms after it.
		time.Sleep(time.Until(s.first.Add(time.Duration(i)*period - 5*time.Millisecond + rand.N(15*time.Millisecond))))
		p := s.processes[rand.N(len(s.processes))]
		start := time.Now()
		p.Stop()
		time.Sleep(400 * time.Millisecond)
		p.Continue()
		s.stops = append(s.stops, time.Since(start).Round(time.Millisecond))
	}
	t.Logf("the longest standstill: %v", slices.Max(s.stops))
	s.judge()
}
