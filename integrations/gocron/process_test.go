package redlockgocron

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/child"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also the other processes, which say what happens to them.
func TestMain(m *testing.M) {
	job, nodes, found := strings.Cut(os.Getenv("REDLOCK_GOCRON"), "\n")
	if !found {
		os.Exit(m.Run())
	}
	var opts []redlock.Option
	if job == "ticks" { // A process that stands still is to miss its node timeout.
		opts = append(opts, redlock.WithNodeTimeout(250*time.Millisecond))
	}
	r := must(nodetest.Connect(strings.Fields(nodes), opts...))
	map[string]func(*redlock.Redlock){"ticks": runTicks, "lead": stand}[job](r)
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
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { outcome <- fmt.Sprintf("skipped %s: %v", name, err) }))))
	}
	for range jobs {
		fmt.Println(<-outcome)
	}
}

// stand says when this process leads, and closes its elector at a line from the test.
func stand(r *redlock.Redlock) {
	e := must(NewElector(r, "leader", 2*time.Second))
	fmt.Println("stands")
	go func() {
		for e.IsLeader(context.Background()) != nil {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("leads")
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	// On a busy machine the lock may have been lost by then.
	if err := e.Close(context.Background()); err != nil && !errors.Is(err, redlock.ErrLost) {
		panic(err)
	}
}

func start(t *testing.T, job string, cluster *testcluster.Cluster) *child.Process {
	t.Helper()
	return child.Start(t, "REDLOCK_GOCRON", append([]string{job}, cluster.Addrs()...)...)
}

func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunEmbedded(t, 3)
	one := start(t, "lead", cluster)
	require.Equal(t, "stands", one.Line())
	require.Equal(t, "leads", one.Line())
	two := start(t, "lead", cluster)
	require.Equal(t, "stands", two.Line())
	one.Kill()
	require.Equal(t, "leads", two.Line())
	three := start(t, "lead", cluster)
	require.Equal(t, "stands", three.Line())
	two.End()
	require.Equal(t, "leads", three.Line())
	three.End()
}
