package redlockgocron

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also the other processes, which say what happens to them.
func TestMain(m *testing.M) {
	job, nodes, found := strings.Cut(os.Getenv("REDLOCK_GOCRON"), " ")
	if !found {
		os.Exit(m.Run())
	}
	var all []redlock.Node
	for _, addr := range strings.Fields(nodes) {
		all = append(all, redlock.NewNode(addr))
	}
	r := must(redlock.New(all, redlock.WithNodeTimeout(10*time.Second), redlock.WithConnectTimeout(10*time.Second)))
	map[string]func(*redlock.Redlock){"jobs": runJobs, "lead": stand}[job](r)
	if err := r.Close(context.Background()); err != nil {
		panic(err)
	}
}

const jobs = 10

// runJobs says which of ten jobs this process has run, and ends when it has run or skipped each.
func runJobs(r *redlock.Redlock) {
	s := must(gocron.NewScheduler(gocron.WithDistributedLocker(must(NewLocker(r, time.Minute, time.Minute)))))
	outcome := make(chan string)
	for i := range jobs {
		name := fmt.Sprint("job", i)
		must(s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { outcome <- "ran " + name }), gocron.WithName(name),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { outcome <- fmt.Sprintf("skipped %s: %v", name, err) }))))
	}
	s.Start()
	for range jobs {
		fmt.Println(<-outcome)
	}
	if err := s.Shutdown(); err != nil {
		panic(err)
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

// start returns a process's lines, and how to end it: in order, or by killing it.
func start(t *testing.T, job string, cluster *testcluster.Cluster) (lines *bufio.Scanner, end, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) // It is killed if the test ends before.
	cmd.Env = append(os.Environ(), "REDLOCK_GOCRON="+job+" "+strings.Join(cluster.Addrs(), " "))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	end = func() {
		_ = input.Close()
		require.NoError(t, cmd.Wait())
	}
	kill = func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	return bufio.NewScanner(output), end, kill
}

func TestTwoProcessesRunEachJobOnce(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunEmbedded(t, 3)
	one, endOne, _ := start(t, "jobs", cluster)
	two, endTwo, _ := start(t, "jobs", cluster)
	ran := map[string]int{}
	for _, lines := range []*bufio.Scanner{one, two} {
		for range jobs {
			require.True(t, lines.Scan())
			if name, ok := strings.CutPrefix(lines.Text(), "ran "); ok {
				ran[name]++
				continue
			}
			require.Contains(t, lines.Text(), "taken")
		}
	}
	require.Len(t, ran, jobs)
	for name, times := range ran {
		require.Equal(t, 1, times, name)
	}
	endOne()
	endTwo()
}

func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster := testcluster.RunEmbedded(t, 3)
	next := func(lines *bufio.Scanner, want string) {
		t.Helper()
		require.True(t, lines.Scan())
		require.Equal(t, want, lines.Text())
	}
	one, _, killOne := start(t, "lead", cluster)
	next(one, "stands")
	next(one, "leads")
	two, endTwo, _ := start(t, "lead", cluster)
	next(two, "stands")
	killOne()
	next(two, "leads")
	three, endThree, _ := start(t, "lead", cluster)
	next(three, "stands")
	endTwo()
	next(three, "leads")
	endThree()
}
