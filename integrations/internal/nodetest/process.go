package nodetest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
)

// holderEnv has the addresses of the servers, for a process that is to hold a lock on them.
const holderEnv = "NODETEST_HOLD"

// Main runs the tests of a package, in whose TestMain it belongs. Started by [Run], it is the second
// process: it holds a lock until its input ends.
func Main(m *testing.M, node NodeFunc) {
	addrs := os.Getenv(holderEnv)
	if addrs == "" {
		os.Exit(m.Run())
	}
	if err := hold(strings.Split(addrs, ","), node); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hold(addrs []string, node NodeFunc) error {
	ctx := context.Background()
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, node(Server{Network: "tcp", Address: addr}))
	}
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	lock, err := r.Lock(ctx, []string{"x"}, ttl, redlock.WithRetryCount(-1))
	if err != nil {
		return err
	}
	fmt.Println("locked")
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err = lock.Unlock(ctx); err != nil {
		return err
	}
	return r.Close(ctx)
}

// A holder is a process that holds a lock.
type holder struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startHolder returns when the process has the lock.
func startHolder(t *testing.T, addrs string) *holder {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	h := &holder{cmd: exec.CommandContext(t.Context(), self)}
	h.cmd.Env = append(os.Environ(), holderEnv+"="+addrs)
	h.cmd.Stderr = os.Stderr
	h.stdin, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	said := make([]byte, len("locked\n"))
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	require.Equal(t, "locked\n", string(said))
	return h
}

// release has the process unlock and end.
func (h *holder) release(t *testing.T) {
	t.Helper()
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}
