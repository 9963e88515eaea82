package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// The help suits any terminal, its examples can be pasted, and the man page says the same.
func TestHelp(t *testing.T) {
	t.Setenv("REDLOCK_NODE_TIMEOUT", "whatever")
	page, _ := exits(t, nil, exitOK, "man")
	t.Setenv("REDLOCK_NODE_TIMEOUT", "")
	assert.True(t, strings.HasPrefix(page, ".TH REDLOCK 1 "))
	commands := append((&tool{}).commands(), manual("redlock"))
	for _, cmd := range commands {
		args := strings.Fields(strings.TrimPrefix(cmd.Name(), "redlock"))
		out, _ := exits(t, nil, exitOK, append(args, "--help")...)
		same, _ := exits(t, nil, exitOK, append([]string{"help"}, args...)...)
		assert.Equal(t, out, same)
		assert.Contains(t, page, roff.Replace(out), "%q", args)
		for _, text := range []string{"Usage:\n  redlock", "\nOptions:\n", "\nExit status:\n"} {
			assert.Contains(t, out, text, "%q", args)
		}
		assert.Equal(t, len(args) == 0, strings.Contains(out, "--tls-server-name NAME "), "%q", args)
		out, more, _ := strings.Cut(out, "\nExamples:\n")
		_, usage, _ := strings.Cut(more, "\nUsage:\n")
		for line := range strings.Lines(out + usage) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 72, "%q: %s", args, line)
		}
	}
	out, _ := exits(t, nil, exitUsage)
	assert.Contains(t, out, "Usage:")
	for line := range strings.Lines(page) {
		assert.NotContains(t, line, "'", "it would be set as a closing quote, or begin a request")
	}
	assert.Equal(t, "\n"+`\&.TH \-\-a a\eb \(dqx\(dq \(gadate\(ga \(ti \(ha`, roff.Replace("\n.TH --a a\\b \"x\" `date` ~ ^"))
	if groff, err := exec.LookPath("groff"); err == nil {
		file := filepath.Join(t.TempDir(), "redlock.1")
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
		out, err := exec.Command(groff, "-man", "-ww", "-z", "-Kutf8", "-Tutf8", file).CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out), "warnings")
	}
}

func TestSentence(t *testing.T) {
	inner := codedError{because(errors.New("redlock: in\x1bner"), "what %s", "failed"), exitLost, "lost"}
	assert.Equal(t, `what failed: in\x1bner`, sentence(fmt.Errorf("wrapped: %w", inner)))
	assert.Equal(t, "a\\x1b[2J\\u009b\\xff\n\ufffd \\n \"ü\"\\t", messageOf(errors.New("redlock: a\x1b[2J\u009b\xff\n\ufffd \\n \"ü\"\t")))
	// Where a node's name stands, its address need not.
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

func TestHints(t *testing.T) {
	for want, err := range map[string]error{
		"answers too late":          errors.New("no answer within 250ms"),
		"a longer --node-timeout":   &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded},
		"nothing listens":           fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"the password":              redis.Error("WRONGPASS invalid username-password pair"),
		"--prefix":                  redis.Error("WRONGTYPE Operation against a key"),
		"reached from this machine": syscall.EHOSTUNREACH,
	} {
		assert.Contains(t, nextStep(err), want)
	}
	// Who waits for long is named with whose lock that is.
	token := tokens.New()
	v := view{resource: "x", need: 1, sights: []sight{{token: token, waiters: []waiter{{"w", 4 * time.Minute}}}}}
	assert.Empty(t, nextSteps([]view{v}))
	v.sights[0].waiters[0].since = 20 * time.Minute
	steps := nextSteps([]view{v})
	require.Len(t, steps, 1)
	assert.Contains(t, steps[0], "x: somebody has waited for 20m0s: see what "+tokens.Digest(token)+" does")
}
