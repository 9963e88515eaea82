//go:build unix

package redlockcron

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// variable has the seconds between ticks, and the addresses of the nodes.
const variable = "REDLOCK_CRON"

// TestMain is also the other processes, which say when they run their job.
func TestMain(m *testing.M) {
	seconds, nodes, found := strings.Cut(os.Getenv(variable), "\n")
	if !found {
		os.Exit(m.Run())
	}
	// A process that stands still is to miss its node timeout.
	r := must(nodetest.Connect(strings.Fields(nodes), redlock.WithNodeTimeout(250*time.Millisecond)))
	tick(r, time.Duration(must(strconv.Atoi(seconds)))*time.Second)
	if err := r.Close(context.Background()); err != nil {
		panic(err)
	}
}

// tick has a Cron run a job at each tick between two lines from the test.
func tick(r *redlock.Redlock, period time.Duration) {
	log, input := &record{}, bufio.NewReader(os.Stdin)
	const short = 100 * time.Millisecond // By that much a tick that was run late delays the next one less.
	locker := must(NewLocker(r, log, 10*period, period-short))
	c := cron.New(cron.WithSeconds(), cron.WithLogger(cron.DiscardLogger))
	must(c.AddJob(fmt.Sprintf("*/%d * * * * *", period/time.Second), locker.Func("report", func(context.Context) error {
		fmt.Println("ran", time.Now().UnixMilli())
		return nil
	})))
	must(r.Inspect(context.Background(), "cron:report")) // Connects it: the first tick is like any other.
	fmt.Println("ready")
	must(input.ReadString('\n'))
	c.Start()
	must(input.ReadString('\n'))
	<-c.Stop().Done()
	failures, errs := log.with("error")
	for i, line := range failures {
		fmt.Println(line, errs[i])
	}
	fmt.Println("over")
}

// Three processes, of which one is stopped at each tick for longer than the node timeout: before it has asked, while it
// asks, or when it has the lock. REDLOCK_CRON_TICKS=500 is the long form, with a tick a second: it bears 200 ms that a
// busy machine adds to a standstill of 400 ms. With a tick in two seconds it is 900 ms.
func TestEachTickIsRunThoughAProcessIsStopped(t *testing.T) {
	t.Parallel()
	ticks, period := testkit.Rounds(10, 4), 2*time.Second
	if text := os.Getenv("REDLOCK_CRON_TICKS"); text != "" {
		ticks, period = must(strconv.Atoi(text)), time.Second
	}
	testkit.AwaitCalm(t) // A tick for which nobody has time within the node timeout is missed.
	addrs := testcluster.RunServers(t, 5).Addrs()
	var processes [3]*nodetest.Process
	for i := range processes {
		processes[i] = nodetest.Start(t, variable, append([]string{fmt.Sprint(int(period / time.Second))}, addrs...)...)
		require.Equal(t, "ready", processes[i].Line())
	}
	first := time.Now().Truncate(period).Add(2 * period)
	for _, p := range processes {
		p.GoOn()
	}
	stops := make([]time.Duration, ticks)
	for i := range ticks {
		// From 5 ms before the tick to 10 ms after it.
		time.Sleep(time.Until(first.Add(time.Duration(i)*period - 5*time.Millisecond + rand.N(15*time.Millisecond))))
		p, start := processes[rand.N(len(processes))], time.Now()
		p.Stop()
		time.Sleep(400 * time.Millisecond)
		p.Continue()
		stops[i] = time.Since(start).Round(time.Millisecond)
	}
	time.Sleep(time.Until(first.Add(time.Duration(ticks) * period)))
	ran := make([]int, ticks)
	for _, p := range processes {
		for _, at := range ended(t, p) {
			if after := at.Sub(first); after >= 0 && int(after/period) < ticks {
				ran[after/period]++
			}
		}
	}
	missed, repeated := 0, 0
	for i, n := range ran {
		if n != 1 {
			t.Logf("tick %d: %d runs; a process was stopped for %v then, and for %v before", i, n, stops[i], stops[max(0, i-1)])
		}
		missed, repeated = missed+max(0, 1-n), repeated+max(0, n-1)
	}
	t.Logf("%d ticks, %d missed, %d repeated; the longest standstill: %v", ticks, missed, repeated, slices.Max(stops))
	require.Zero(t, missed, "ticks that nobody ran")
	require.Zero(t, repeated, "runs of a tick that was run")
}

// ended ends a process, and returns when it has run its job.
func ended(t *testing.T, p *nodetest.Process) (ran []time.Time) {
	t.Helper()
	p.GoOn()
	for line := p.Line(); line != "over"; line = p.Line() {
		if text, ok := strings.CutPrefix(line, "ran "); ok {
			ran = append(ran, time.UnixMilli(must(strconv.ParseInt(text, 10, 64))))
		} else {
			t.Log(line)
		}
	}
	p.End()
	return ran
}
