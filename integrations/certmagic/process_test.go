package redlockcertmagic

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// TestMain is also the other processes, which say what happens to them.
func TestMain(m *testing.M) {
	if job := os.Getenv("REDLOCK_CERTMAGIC"); job != "" {
		manage(strings.Split(job, "\n"))
		return
	}
	os.Exit(m.Run())
}

// manage obtains a certificate, from a CA that waits for a line from the test.
func manage(job []string) {
	ctx := context.Background()
	var nodes []redlock.Node
	for _, addr := range job[2:] {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r := must(redlock.New(nodes, redlock.WithNodeTimeout(10*time.Second), redlock.WithConnectTimeout(10*time.Second),
		redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventWaiting {
				fmt.Println("waits")
			}
		})))
	storage := New(&certmagic.FileStorage{Path: job[0]}, r, must(time.ParseDuration(job[1])))
	config, stop := newInstance(storage, newCA(func(context.Context) error {
		fmt.Println("asks the CA")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	}))
	if err := config.ManageSync(ctx, []string{domain}); err != nil {
		panic(err)
	}
	fmt.Println("has", serial(config))
	stop()
	if err := r.Close(ctx); err != nil {
		panic(err)
	}
}

// A process is one that runs manage.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.Writer
	lines *bufio.Scanner
}

func start(t *testing.T, folder string, ttl time.Duration, cluster *testcluster.Cluster) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) // It is killed if the test ends before.
	cmd.Env = append(os.Environ(), "REDLOCK_CERTMAGIC="+strings.Join(append([]string{folder, ttl.String()}, cluster.Addrs()...), "\n"))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{t, cmd, input, bufio.NewScanner(output)}
}

// says waits for a line that begins so, past others that say that it still waits, and returns the rest.
func (p *process) says(want string) string {
	p.t.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), want); ok {
			return rest
		}
		require.Equal(p.t, "waits", p.lines.Text())
	}
	require.FailNow(p.t, "the process has ended", "it should have said %q", want)
	return ""
}

func (p *process) issue() {
	p.t.Helper()
	_, err := fmt.Fprintln(p.input)
	require.NoError(p.t, err)
}

func TestTwoProcessesObtainACertificateOnce(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	one := start(t, folder, time.Minute, cluster)
	one.says("asks the CA")
	two := start(t, folder, time.Minute, cluster)
	two.says("waits")
	one.issue()
	require.Equal(t, one.says("has"), two.says("has"))
	require.NoError(t, one.cmd.Wait())
	require.NoError(t, two.cmd.Wait())
}

func TestAProcessFollowsAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	one := start(t, folder, 2*time.Second, cluster)
	one.says("asks the CA")
	two := start(t, folder, 2*time.Second, cluster)
	require.NoError(t, one.cmd.Process.Kill())
	_ = one.cmd.Wait()
	two.says("asks the CA")
	two.issue()
	two.says("has")
	require.NoError(t, two.cmd.Wait())
}
