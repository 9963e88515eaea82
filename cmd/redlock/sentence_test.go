package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// Where a node's name stands, its address need not, and no call of the system.
func TestCausesAreShort(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	for _, node := range c.Nodes {
		require.NoError(t, node.Stop())
	}
	_, out, _ := execTool(t, c, append([]string{"status", "x"}, slow...)...)
	assert.Contains(t, out, "  "+c.Nodes[0].Addr()+"  connection refused\n")
	_, _, errOut := execTool(t, c, append([]string{"list"}, slow...)...)
	assert.Contains(t, errOut, "redlock: "+c.Nodes[0].Addr()+": connection refused\n")
	lookup := fmt.Errorf("not connected: %w", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "n1", Server: "10.0.0.53:53", IsNotFound: true}})
	assert.Equal(t, "no such host", causeOf(lookup))
	assert.Equal(t, "LOADING x", causeOf(errors.New("redlock: LOADING x")))
}

// An error is a sentence for a shell; how every node has voted is for those who ask.
func TestErrorsAreSentences(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	hold(t, c, "s6", redlock.WithOwner("vm/22242"))
	hold(t, c, "odd name", redlock.WithOwner("it's \"me\""))
	for _, node := range c.Nodes {
		require.NoError(t, node.Set("foreign", "x", 0))
	}
	run := func(args ...string) (int, string) {
		code, _, errOut := execTool(t, c, append([]string{"run", "--node-timeout", "5s", "--connect-timeout", "20s", "--wait", "0"}, args...)...)
		return code, errOut
	}
	const left = ` for another \d+m\d+s` + "\n$"
	code, text := run("s6", "--", "true")
	assert.Equal(t, exitTaken, code)
	assert.Regexp(t, `^redlock: s6 is held by vm/22242`+left, text)
	_, text = run("--wait", "1s", "s6", "--", "true")
	assert.Regexp(t, `^(redlock: waiting .+\n)?redlock: gave up waiting: s6 is held by vm/22242`+left, text)
	_, text = run("s6", "free", "--", "true")
	assert.Regexp(t, `^redlock: one of free, s6 is held by vm/22242`+left, text)
	_, text = run("odd name", "--", "true")
	assert.Regexp(t, `^redlock: odd name is held by "it's \\"me\\""`+left, text)
	_, text = run("foreign", "--", "true")
	assert.Equal(t, "redlock: foreign is held by "+tokens.Digest("x")+", without expiry\n", text)

	_, text = run("--verbose", "s6", "--", "true")
	assert.Regexp(t, `^redlock: s6 is held by vm/22242 .+\n(  127\.0\.0\.1:\d+: (held by "vm/22242" \([0-9a-f]+\) for|not waited for).*\n){3}$`, text)
	_, text = run("--json", "s6", "--", "true")
	var e errorJSON
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	assert.Contains(t, e.Error, "nodes said yes, 2 needed")

	t.Setenv("REDLOCK_TOKEN", tokens.New())
	code, _, text = execTool(t, c, append([]string{"release", "gone"}, slow...)...)
	assert.Equal(t, exitLost, code)
	assert.Equal(t, "redlock: the lock of gone is gone, or somebody else's\n", text)

	addr := c.Nodes[0].Addr()
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Hang())
	t.Cleanup(func() { _ = c.Nodes[1].Resume() })
	code, _, text = execTool(t, c, "run", "--wait", "0", "free", "--", "true")
	assert.Equal(t, exitNoQuorum, code)
	assert.Contains(t, text, "redlock: no quorum for free: 2 of 3 nodes failed: "+addr+" (connection refused), "+c.Nodes[1].Addr()+" (")
	assert.LessOrEqual(t, len(text), 200, "%s", text)
}

func TestSentence(t *testing.T) {
	inner := codedError{because(errors.New("redlock: in\x1bner"), "what %s", "failed"), exitLost, "lost"}
	for want, err := range map[string]error{
		"plain":                  errors.New("redlock: plain"),
		`what failed: in\x1bner`: fmt.Errorf("wrapped: %w", inner),
		"gave up waiting: no node has answered yet": fmt.Errorf("%w: %w", redlock.ErrNotAcquired, context.DeadlineExceeded),
	} {
		assert.Equal(t, want, sentence(err))
	}
	assert.Equal(t, "what failed: redlock: in\x1bner", inner.Error(), "for JSON")
	assert.Empty(t, details(errors.New("redlock: plain")))
	assert.Equal(t, "a, b, c, d, e and 2 more", namesOf([]string{"a", "b", "c", "d", "e", "f", "g"}))

	silent := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 6379}, Err: net.ErrClosed}
	assert.Equal(t, "no answer in time", failure(redlock.Vote{Err: fmt.Errorf("not connected: handshake: %w", silent)}))

	vote := func(holder string, ttl time.Duration) redlock.Vote {
		return redlock.Vote{Err: redlock.ErrTaken, Holder: holder, HolderTTL: ttl}
	}
	for want, votes := range map[string][]redlock.Vote{
		"is held by a for another 3s":                      {vote("a", 4*time.Second), vote("b", time.Minute), vote("a", time.Second)},
		"is held by a, without expiry":                     {vote("a", time.Second), vote("a", -1)},
		"is held by b":                                     {vote("b", time.Second)},
		"is asked for by several at the same time":         {vote("a", time.Minute), vote("b", time.Minute), {Err: redlock.ErrPending}},
		"is about to go to somebody else who waits for it": {vote("", time.Second), vote("", time.Second)},
	} {
		assert.Equal(t, want, takenBy(&redlock.QuorumError{Need: 2, Votes: votes}, time.Second))
	}
}
