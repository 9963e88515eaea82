package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestUsage(t *testing.T)   { playScript(t, "usage.txt") }
func TestStatus(t *testing.T)  { playScript(t, "status.txt") }
func TestTokens(t *testing.T)  { playScript(t, "tokens.txt") }
func TestPermits(t *testing.T) { playScript(t, "permits.txt") }
func TestAdmit(t *testing.T)   { playScript(t, "admit.txt") }
func TestRun(t *testing.T)     { playScript(t, "run.txt") }
func TestWaiting(t *testing.T) { playScript(t, "waiting.txt") }

// A script has command lines of the tool, and what each is to come to. Its steps, a line each, with words quoted as
// in Go, <0> for the address of the first node, <dir> for a folder, and <tool> for the tool:
//
//	## TEXT              begins a test
//	nodes N [ARG…]       starts so many servers, with arguments
//	env NAME=VALUE
//	file NAME TEXT       writes a file into the folder
//	hold NAME [OWNER]    takes a lock with a fencing token, which all nodes have
//	set I KEY VALUE      stores a value, "token" for one; with a ttl of a minute
//	stop I, hang I, flush I
//	CODE WORD…           runs the tool in this process, CODE! in one of its own, and compares its exit code
//	CODE WORD… => TEXT   and looks for a text in what it says
//	& WORD…              starts the tool in the background; "await NAME" waits until it stands in line for a
//	                     resource on all nodes, "says RE" until its errors match, and "end CODE" for its end
//	out RE, err RE       match the output, or the errors, of the last one; without RE: there are none
//	not RE               matches neither of them
//	never RE             the same, of all that follow
//	keep NAME RE         puts what the group of RE matches of the output into the environment, and for <NAME>
//	on N KEY             waits until so many nodes have a key
//	value I KEY RE       matches what a node stores
//
// Expressions match within a line or over several, as (?m) has it.
type script struct {
	t          *testing.T
	dir        string
	c          *testcluster.Cluster
	out        string
	errOut     string
	background *process
	never      []string
	kept       map[string]string
}

func playScript(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	for _, part := range strings.Split("\n"+string(text), "\n## ")[1:] {
		title, steps, _ := strings.Cut(part, "\n")
		t.Run(title, func(t *testing.T) {
			s := &script{t: t, dir: t.TempDir(), kept: map[string]string{}}
			for line := range strings.Lines(steps) {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					s.step(s.expand(line))
				}
			}
		})
	}
}

// expand puts in what the words in angle brackets stand for.
func (s *script) expand(line string) string {
	line = strings.NewReplacer("<dir>", s.dir, "<tool>", "env "+asTool+"=1 "+os.Args[0]).Replace(line)
	for name, value := range s.kept {
		line = strings.ReplaceAll(line, "<"+name+">", value)
	}
	if s.c != nil {
		for i, addr := range s.c.Addrs() {
			line = strings.ReplaceAll(line, fmt.Sprintf("<%d>", i), addr)
		}
	}
	return line
}

// words are those of a line.
func (s *script) words(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, _, _ := strings.Cut(line, " ")
		rest := line[len(word):]
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			rest = line[len(quoted):]
			word, err = strconv.Unquote(quoted)
			require.NoError(s.t, err)
		}
		words, line = append(words, word), rest
	}
	return words
}

func (s *script) step(line string) {
	s.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	if code, err := strconv.Atoi(strings.TrimSuffix(verb, "!")); err == nil {
		s.run(code, rest, strings.HasSuffix(verb, "!"))
		return
	}
	switch verb {
	case "out":
		s.match(rest, s.out, line)
	case "err":
		s.match(rest, s.errOut, line)
	case "not":
		require.NotRegexp(s.t, "(?m)"+rest, s.out+s.errOut)
	case "never":
		s.never = append(s.never, rest)
	case "says":
		said := regexp.MustCompile("(?m)" + rest)
		eventually(s.t, func() bool { return said.MatchString(s.background.errOut.String()) }, "%s", line)
	case "keep":
		name, pattern, _ := strings.Cut(rest, " ")
		found := regexp.MustCompile("(?m)" + pattern).FindStringSubmatch(s.out)
		require.NotNil(s.t, found, "%s: %s", line, s.out)
		s.t.Setenv(name, found[1])
		s.kept[name] = found[1]
	default:
		s.prepare(verb, s.words(rest))
	}
}

func (s *script) match(pattern, text, line string) {
	s.t.Helper()
	if pattern == "" {
		require.Empty(s.t, text, line)
		return
	}
	require.Regexp(s.t, "(?m)"+pattern, text)
}

// run runs the tool.
func (s *script) run(code int, line string, own bool) {
	s.t.Helper()
	line, want, _ := strings.Cut(line, " => ")
	got, args := 0, s.words(line)
	if own {
		p := start(s.t, s.c, args...)
		got, s.out, s.errOut = p.wait(), p.out.String(), p.errOut.String()
	} else {
		got, s.out, s.errOut = execTool(s.t, nil, args...)
	}
	require.Equal(s.t, code, got, "%q: %s%s", args, s.out, s.errOut)
	require.Contains(s.t, s.out+s.errOut, want, "%q", args)
	for _, pattern := range s.never {
		require.NotRegexp(s.t, pattern, s.out+s.errOut)
	}
}

// prepare carries out a step that is none of the tool's.
func (s *script) prepare(verb string, words []string) {
	s.t.Helper()
	node := func() *testcluster.Node {
		i, err := strconv.Atoi(words[0])
		require.NoError(s.t, err)
		return s.c.Nodes[i]
	}
	var err error
	switch verb {
	case "nodes":
		n, _ := strconv.Atoi(words[0])
		s.c = testcluster.RunServers(s.t, n, testcluster.WithArgs(words[1:]...))
		s.t.Setenv("REDLOCK_NODES", strings.Join(s.c.Addrs(), ","))
	case "env":
		name, value, _ := strings.Cut(words[0], "=")
		s.t.Setenv(name, value)
	case "file":
		err = os.WriteFile(filepath.Join(s.dir, words[0]), []byte(words[1]), 0o644) //nolint:gosec // acquire makes it secret.
	case "hold":
		hold(s.t, s.c, words[0], redlock.WithOwner(strings.Join(words[1:], "")), redlock.WithFencing())
	case "set":
		value := words[2]
		if value == "token" {
			value = tokens.New()
		}
		err = node().Set(words[1], value, time.Minute)
	case "stop":
		err = node().Stop()
	case "hang":
		err = node().Hang()
		s.t.Cleanup(func() { _ = node().Resume() })
	case "flush":
		err = node().Flush()
	case "&":
		s.background = start(s.t, s.c, words...)
	case "await":
		eventually(s.t, func() bool { return waiting(s.t, s.c, words[0]) == len(s.c.Nodes) }, "a place in all lines")
	case "end":
		require.Equal(s.t, words[0], strconv.Itoa(s.background.wait()))
		s.out, s.errOut = s.background.out.String(), s.background.errOut.String()
	case "on":
		eventually(s.t, func() bool { return strconv.Itoa(holders(s.t, s.c, words[1])) == words[0] }, "%q", words)
	case "value":
		value, _, failed := node().Get(words[1])
		require.NoError(s.t, failed)
		require.Regexp(s.t, words[2], value)
	default:
		require.Fail(s.t, "no step of a script", "%s %q", verb, words)
	}
	require.NoError(s.t, err, "%s %q", verb, words)
}
