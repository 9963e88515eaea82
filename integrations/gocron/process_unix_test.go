//go:build unix

package redlockgocron

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// variable has the addresses of the nodes.
const variable = "REDLOCK_GOCRON"

// TestMain is also the other processes, which say what happens to them.
func TestMain(m *testing.M) {
	nodes := strings.Fields(os.Getenv(variable))
	if len(nodes) == 0 {
		os.Exit(m.Run())
	}
	// A process that stands still is to miss its node timeout.
	r := must(nodetest.Connect(nodes, redlock.WithNodeTimeout(250*time.Millisecond)))
	runTicks(r)
	if err := r.Close(context.Background()); err != nil {
		panic(err)
	}
}

const jobs = 10

// runTicks runs ten jobs at each line from the test.
func runTicks(r *redlock.Redlock) {
	s := must(gocron.NewScheduler(gocron.WithDistributedLocker(must(NewLocker(r, 2*time.Minute, time.Minute)))))
	s.Start()
	lines := bufio.NewScanner(os.Stdin)
	for tick := 0; lines.Scan(); tick++ {
		runTick(s, fmt.Sprintf("tick%d/", tick))
		fmt.Println("over")
	}
	if err := s.Shutdown(); err != nil {
		panic(err)
	}
}

// runTick says which of ten jobs this process has run, until it has run or skipped each.
func runTick(s gocron.Scheduler, tick string) {
	outcome := make(chan string)
	for i := range jobs {
		name := fmt.Sprint(tick, "job", i)
		must(s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { outcome <- "ran " + name }), gocron.WithName(name),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				outcome <- fmt.Sprintf("skipped %s: %v", name, err)
			}))))
	}
	for range jobs {
		fmt.Println(<-outcome)
	}
}

// Three processes, of which one is stopped at each tick for longer than the node timeout: it may have come first.
func TestEachTickIsRunThoughAProcessIsStopped(t *testing.T) {
	t.Parallel()
	testkit.AwaitCalm(t) // A tick for which nobody has time within the node timeout is missed.
	cluster := testcluster.RunServers(t, 5)
	processes := make([]*nodetest.Process, 3)
	for i := range processes {
		processes[i] = nodetest.Start(t, variable, cluster.Addrs()...)
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
