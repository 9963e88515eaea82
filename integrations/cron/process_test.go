package redlockcron

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
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
	skips, _ := log.with("info skip")
	fmt.Println("left out", len(skips))
	failures, errs := log.with("error")
	for i, line := range failures {
		fmt.Println(line, errs[i])
	}
	fmt.Println("over")
}

// A schedule is the ticks of some processes. It judges all but those at its ends.
type schedule struct {
	t         *testing.T
	period    time.Duration
	ticks     int
	first     time.Time
	processes []*child.Process
	stops     []time.Duration // how long a process was stopped at each tick, if one was
}

func startSchedule(t *testing.T, cluster *testcluster.Cluster, processes, ticks int, period time.Duration) *schedule {
	t.Helper()
	s := &schedule{t: t, period: period, ticks: ticks}
	testkit.AwaitCalm(t) // A tick for which nobody has time within the node timeout is missed.
	for range processes {
		s.processes = append(s.processes, child.Start(t, variable, append([]string{fmt.Sprint(int(period / time.Second))}, cluster.Addrs()...)...))
	}
	for _, p := range s.processes {
		require.Equal(t, "ready", p.Line())
	}
	s.first = time.Now().Truncate(period).Add(2 * period)
	for _, p := range s.processes {
		p.GoOn()
	}
	return s
}

// judge waits for the last tick, and requires that each was run once.
func (s *schedule) judge() {
	s.t.Helper()
	time.Sleep(time.Until(s.first.Add(time.Duration(s.ticks) * s.period)))
	ran, late := make([]int, s.ticks), 0
	for _, p := range s.processes {
		p.GoOn()
		for line := p.Line(); line != "over"; line = p.Line() {
			text, ok := strings.CutPrefix(line, "ran ")
			if !ok {
				s.t.Log(line)
				continue
			}
			after := time.UnixMilli(must(strconv.ParseInt(text, 10, 64))).Sub(s.first)
			if i := int(after / s.period); after >= 0 && i < s.ticks {
				ran[i]++
				if after%s.period > 100*time.Millisecond {
					late++
				}
			}
		}
	}
	missed, repeated := 0, 0
	for i, n := range ran {
		if n != 1 {
			s.t.Logf("tick %d: %d runs", i, n)
			if s.stops != nil {
				s.t.Logf("a process was stopped for %v then, and for %v before", s.stops[i], s.stops[max(0, i-1)])
			}
		}
		missed += max(0, 1-n)
		repeated += max(0, n-1)
	}
	s.t.Logf("%d ticks, %d missed, %d repeated; %d runs began more than 100 ms after their tick", s.ticks, missed, repeated, late)
	require.Zero(s.t, missed, "ticks that nobody ran")
	require.Zero(s.t, repeated, "runs of a tick that was run")
	for _, p := range s.processes {
		p.End()
	}
}

func TestTwoProcessesRunEachTickOnce(t *testing.T) {
	t.Parallel()
	startSchedule(t, testcluster.RunEmbedded(t, 3), 2, 2, 2*time.Second).judge()
}
