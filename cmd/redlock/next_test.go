package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

func TestNextStep(t *testing.T) {
	for want, err := range map[string]error{
		"answers too late":          errors.New("no answer within 250ms"),
		"a longer --node-timeout":   &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded},
		"nothing listens":           fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"name of its host":          &net.DNSError{IsNotFound: true},
		"the password":              redis.Error("WRONGPASS invalid username-password pair"),
		"wait":                      redis.Error("LOADING Redis is loading the dataset in memory"),
		"--prefix":                  redis.Error("WRONGTYPE Operation against a key"),
		"the log of its server":     redis.Error("ERR something else"),
		"reached from this machine": syscall.EHOSTUNREACH,
	} {
		assert.Contains(t, nextStep(err), want)
	}
}

// Who waits for long is named with whose lock that is.
func TestNextStepOfALongWait(t *testing.T) {
	token := tokens.New()
	v := view{resource: "x", need: 2, sights: make([]sight, 3)}
	for i := range v.sights {
		v.sights[i] = sight{node: fmt.Sprint("n", i), token: token, waiters: []waiter{{"w", 4 * time.Minute}}}
	}
	assert.Empty(t, nextSteps([]view{v}))
	v.sights[1].waiters = []waiter{{"w", 20 * time.Minute}}
	steps := nextSteps([]view{v})
	require.Len(t, steps, 1)
	assert.Contains(t, steps[0], "x: somebody has waited for 20m0s: see what "+tokens.Digest(token)+" does")
	assert.Empty(t, nextSteps(nil))
}

// A node that answers, but never in time, is not there.
func TestStatusOfANodeThatIsTooLate(t *testing.T) {
	c := testcluster.RunServers(t, 3, testcluster.WithProxy())
	require.NoError(t, c.Nodes[1].Slow(10*time.Second, 10*time.Second))
	args := []string{"status", "--connect-timeout", "2s", "--node-timeout", "2s", "x"}
	_, out, _ := execTool(t, c, args...)
	assert.Contains(t, out, c.Nodes[1].Addr()+": it answers too late")
	code, out, _ := execTool(t, c, append(args, "--json")...)
	assert.Equal(t, exitNo, code)
	assert.Contains(t, decode[viewJSON](t, out).Nodes[1].Next, "too late", out)
}
