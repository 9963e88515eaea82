package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

// Half an answer must not look like all of it.
func TestAnswerCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"status", "--nodes", "127.0.0.1:1", "x"}} {
		var errOut bytes.Buffer
		s := execute(t.Context(), args, strings.NewReader(""), full{}, &errOut)
		assert.Equal(t, exitInternal, s.code, "%q", args)
		assert.Contains(t, errOut.String(), "cannot write the answer: no space")
	}
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// Where the answer goes to no terminal, the help suits any, and its examples can be pasted.
func TestHelp(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	names := []string{
		"", "run", "status", "list", "watch", "check", "admit", "acquire", "release", "break", "version", "man", "completion", "help",
	}
	for _, name := range names {
		out, _ := exits(t, nil, exitOK, append(strings.Fields(name), "--help")...)
		sections := []string{"NAME", "SYNOPSIS", "GLOBAL OPTIONS"}
		if name != "completion" && name != "help" {
			sections = append(sections, "DESCRIPTION", "EXIT STATUS")
		}
		for _, section := range sections {
			assert.Contains(t, out, section+"\n", name)
		}
		assert.Contains(t, out, "--tls-server-name")
		for _, once := range []string{"that the nodes' certificates must have", "NO_COLOR, if it"} {
			assert.Equal(t, name == "", strings.Contains(out, once), "%s: %s", name, once)
		}
		if name != "" {
			same, _ := exits(t, nil, exitOK, "help", name)
			assert.Equal(t, out, same)
		}
		assert.NotContains(t, out, "\x1b")
		assert.NotContains(t, out, "``")
		out, examples, _ := strings.Cut(out, "\nEXAMPLES\n")
		for line := range strings.Lines(out + examples) {
			if strings.Contains(examples, line) && !strings.HasPrefix(line, "    #") {
				continue // A command: broken, it would be another one.
			}
			assert.LessOrEqual(t, cells(strings.TrimSuffix(line, "\n")), 80, "%s: %s", name, line)
		}
	}
	out, _ := exits(t, nil, exitOK, "--help", "--color", "always")
	assert.Contains(t, out, "\x1b[1mNAME")
	out, _ = exits(t, nil, exitUsage)
	assert.Contains(t, out, "SYNOPSIS")
}

// The page has every command and every option, in the words of the help.
func TestManPage(t *testing.T) {
	t.Setenv("REDLOCK_NODE_TIMEOUT", "whatever")
	page, _ := exits(t, nil, exitOK, "man")
	assert.True(t, strings.HasPrefix(page, ".TH REDLOCK 1 "))
	root := (&tool{}).rootCommand()
	completionNeedsShell(root)
	byName := map[string]string{}
	for _, text := range strings.Split(page, "\n.SS ")[1:] {
		text, _, _ = strings.Cut(text, "\n.SH ")
		byName[strings.Fields(text)[1]] = text
	}
	has := func(text string) func(f *pflag.Flag) {
		return func(f *pflag.Flag) {
			name, _, usage := flagHelp(f)
			assert.Contains(t, text, `\fB`+roff(name)+`\fR`)
			assert.Contains(t, text, "\n"+roff(usage)+"\n", name)
		}
	}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		text := byName[cmd.Name()]
		require.NotEmpty(t, text, cmd.Name())
		ownFlags(cmd).VisitAll(has(text))
		assert.Equal(t, cmd.Annotations["exit"] != "", strings.Contains(text, "\n.B Exit status\n"), cmd.Name())
		assert.Contains(t, text, strings.Fields(roff(cmd.Long))[0], cmd.Name())
	}
	assert.Contains(t, byName["watch"], "\n129, 130, 143\nit was ended")
	assert.Contains(t, byName["completion"], "redlock completion bash|zsh|fish|")
	_, global, _ := strings.Cut(page, "\n.SH GLOBAL OPTIONS\n")
	root.PersistentFlags().VisitAll(has(global))
	for _, section := range []string{"SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"} {
		assert.Contains(t, page, "\n.SH "+section+"\n")
	}
	for line := range strings.Lines(page) {
		assert.NotContains(t, line, "'", "it would be set as a closing quote, or begin a request")
	}
	assert.Equal(t, `\&.TH \-\-wait a\eb \(dqx\(dq \(gadate\(ga \(ti \(ha 5…`, roff(".TH --wait a\\b \"x\" `date` ~ ^ 5…"))
	if groff, err := exec.LookPath("groff"); err == nil {
		file := filepath.Join(t.TempDir(), "redlock.1")
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
		out, err := exec.Command(groff, "-man", "-ww", "-z", "-Kutf8", "-Tutf8", file).CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out), "warnings")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _ := exits(t, nil, exitOK, "completion", shell)
		assert.Contains(t, out, "redlock", shell)
		if path, err := exec.LookPath(shell); err == nil {
			file := filepath.Join(t.TempDir(), shell)
			require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
			text, err := exec.Command(path, "-n", file).CombinedOutput()
			assert.NoError(t, err, "%s: %s", shell, text)
		}
	}
	// A shell offers the names of files where it is told nothing else. For most options that is nonsense.
	root := (&tool{}).rootCommand()
	for _, cmd := range root.Commands() {
		check := func(f *pflag.Flag) {
			_, out, _ := execTool(t, nil, "__complete", cmd.Name(), "--"+f.Name, "")
			switch _, offered := suggested[f.Name]; {
			case f.NoOptDefVal != "": // It takes no value.
			case slices.Contains(takesFile, f.Name):
				assert.Equal(t, ":0\n", out, "%s --%s", cmd.Name(), f.Name)
			case f.Value.Type() == "duration" || offered:
				assert.Regexp(t, `(?s)^.+\n:4\n$`, out, "%s --%s", cmd.Name(), f.Name)
			default:
				assert.Equal(t, ":4\n", out, "%s --%s", cmd.Name(), f.Name)
			}
		}
		if cmd.Name() != "completion" {
			cmd.LocalFlags().VisitAll(check)
			root.PersistentFlags().VisitAll(check)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"nodes", "node-timeout", "json", "wait", "kill-after"}
	for word, want := range map[string]string{
		"node": "nodes", "nodse": "nodes", "kil-after": "kill-after", "wiat": "wait", "WAIT": "wait", "zzzzz": "", "node-": "node-timeout", "": "", "w": "",
	} {
		assert.Equal(t, want, nearest(word, known), "%q", word)
	}
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
	assert.Equal(t, "a\\x1b[2J\\u009b\\xff\n\ufffd \\n \"ü\"\\t", messageOf(errors.New("redlock: a\x1b[2J\u009b\xff\n\ufffd \\n \"ü\"\t")))

	// Where a node's name stands, its address need not, and no call of the system.
	silent := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 6379}, Err: net.ErrClosed}
	assert.Equal(t, "no answer in time", failure(redlock.Vote{Err: fmt.Errorf("not connected: handshake: %w", silent)}))
	lookup := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "n1", Server: "10.0.0.53:53", IsNotFound: true}}
	assert.Equal(t, "no such host", causeOf(fmt.Errorf("not connected: %w", lookup)))
	assert.Equal(t, "LOADING x", causeOf(errors.New("redlock: LOADING x")))
	assert.True(t, isTimeout(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}))
	assert.True(t, isTimeout(fmt.Errorf("x: %w", context.DeadlineExceeded)))
	assert.False(t, isTimeout(net.ErrClosed))

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
		"name of its host":          &net.DNSError{IsNotFound: true},
		"the password":              redis.Error("WRONGPASS invalid username-password pair"),
		"wait":                      redis.Error("LOADING Redis is loading the dataset in memory"),
		"--prefix":                  redis.Error("WRONGTYPE Operation against a key"),
		"the log of its server":     redis.Error("ERR something else"),
		"reached from this machine": syscall.EHOSTUNREACH,
	} {
		assert.Contains(t, nextStep(err), want)
	}
	// Who waits for long is named with whose lock that is.
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
}

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"one two three four\n":              "one two\n    three\n    four\n",
		"  a bcd efgh ijk\n  x\n":           "  a bcd\n      efgh\n      ijk\n  x\n",
		"a-word-that-is-too-long b\n":       "a-word-that-is-too-long\n    b\n",
		"aaa \x1b[32mbbbb\x1b[0m ccc":       "aaa \x1b[32mbbbb\x1b[0m\n    ccc",
		"\u9501\u9501 \u9501\u9501\u9501\n": "\u9501\u9501\n    \u9501\u9501\u9501\n",
		"ten chars!\n":                      "ten chars!\n",
		"\n":                                "\n",
		"[y/N] ":                            "[y/N] ",
		"no end":                            "no end",
	} {
		assert.Equal(t, want, fold(text, 10, ""), "%q", text)
		assert.Equal(t, text, fold(text, 0, ""))
	}
	for text, want := range map[string]string{
		"":                         "     ",
		"abc":                      "abc  ",
		"abcde":                    "abcde",
		"abcdef":                   "abcd…",
		"\u9501\u9501":             "\u9501\u9501 ",
		"\u9501\u9501\u9501":       "\u9501\u9501…",
		"a\u9501\u9501\u9501":      "a\u9501… ",
		"e\u0301e\u0301e\u0301abc": "e\u0301e\u0301e\u0301a…",
	} {
		assert.Equal(t, want, fit(text, 5), "%q", text)
	}
}
