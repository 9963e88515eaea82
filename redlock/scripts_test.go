package redlock

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// The answers of a node whose scripts are others, or that is none, are what they are
// worth.
func TestScriptAnswersWithoutALabel(t *testing.T) {
	d := []byte("0a1b2c3d4e5f")
	for _, s := range []*node.Script{lockScript, fencedLockScript, queueScript, fencedQueueScript} {
		out := s.Decode([]any{int64(5), d})
		require.Equal(t, node.Outcome{Stance: node.No, Err: ErrTaken, Holder: &node.Holder{Digest: string(d), TTL: 5 * time.Millisecond}}, out, s.Name)
		out = s.Decode([]any{int64(5), d, []byte("me")})
		require.Equal(t, node.Outcome{Stance: node.No, Err: ErrTaken, Holder: &node.Holder{Digest: string(d), Owner: "me", TTL: 5 * time.Millisecond}}, out, s.Name)
		for _, label := range []string{"", "x\ny", "\xff", strings.Repeat("x", tokens.MaxLabel+1)} {
			out = s.Decode([]any{int64(5), d, []byte(label)})
			require.ErrorIs(t, out.Err, ErrTaken)
			require.Empty(t, out.Holder.Owner, "what is no label is not shown")
		}
		for _, bad := range [][]any{{int64(5), d, int64(1)}, {int64(5), d, nil}, {int64(5), d, d, d, d}, {int64(5)}, {d, int64(5), d}} {
			require.NotErrorIs(t, s.Decode(bad).Err, ErrTaken, "%s %v", s.Name, bad)
			require.Error(t, s.Decode(bad).Err, "%s %v", s.Name, bad)
		}
	}
	out := queueScript.Decode([]any{int64(5), d, []byte("me"), []byte("why")})
	require.Equal(t, "me", out.Holder.Owner)
	require.Equal(t, "why", out.Unqueued)
	require.Equal(t, "me", inspectScript.Decode([]any{d, int64(5), d, []byte("me")}).Holder.Owner)
	require.Empty(t, inspectScript.Decode([]any{d, int64(5), d}).Holder.Owner)
	require.Error(t, inspectScript.Decode([]any{d, int64(5), d, int64(1)}).Err)
}

func FuzzScriptOwnerOf(f *testing.F) {
	odd := `host-1/4711 %a+().[x]^$-%% "ü" owner=日本`
	for _, s := range []string{"", odd, strings.Repeat("a", 32) + tokens.LabelMark + odd, strings.Repeat("a", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if label := tokens.LabelOf(s); label != "" {
			require.NoError(t, tokens.CheckLabel(label))
			require.Equal(t, s[:tokens.Length]+tokens.LabelMark+label, s)
		}
		if tokens.CheckLabel(s) == nil {
			require.Equal(t, s, tokens.LabelOf(newClaim(nil, nil, s, ttl, 1).token()))
		}
	})
}

func replyOf(t *testing.T, s string) any {
	t.Helper()
	client, server := testcluster.Pipe()
	_, err := server.Write([]byte(s))
	require.NoError(t, err)
	c := redis.NewConn(client, 0, 0)
	reply, err := c.Receive()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return reply
}

// What a node says without a script is worth the same: also if the request runs again, and if the holder's key
// expires before it is asked for how long it lives.
func TestScriptlessAnswersOfALockRequest(t *testing.T) {
	require.Equal(t, node.Outcome{Stance: node.Yes}, answers.Direct("me", nil, 5))
	require.Equal(t, node.Outcome{Stance: node.Yes}, answers.Direct("me", []byte("me"), 5))
	for left, want := range map[int64]time.Duration{5: 5 * time.Millisecond, 0: 0, -2: 0, -1: -1} {
		out := answers.Direct("me", []byte("you"), left)
		require.Equal(t, node.No, out.Stance)
		require.Equal(t, want, out.Holder.TTL, left)
	}
	require.Equal(t, node.Silent, answers.Direct("me", int64(1), 5).Stance)
}

// A command is written when its node comes to it, which may be after others have been made
// for the same claim, and after claims of other calls have come and gone.
func TestScriptArgumentsOfALockRequestStayWhatTheyAre(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		c := newClaim([]string{"a"}, []any{"a"}, "", time.Minute, 3)
		want := []any{c.token(), int64(60_000)}
		if fenced {
			c.addCounters()
			c.askFence(time.UnixMicro(5), time.Hour, false)
			want = append(want, int64(5), int64(3_600_000))
			_ = raiseCommand(c, 7)
		}
		lock := lockCommand(c)
		_ = queueCommand(c, "channel", time.Second, time.Minute, true)
		_, _ = c.Release(time.Now(), false)
		c.wakeOthers()
		unlock, _ := c.Release(time.Now(), false)
		later := time.Now().Add(time.Second)
		c.keptUntil.Store(&later)
		_, _ = c.Release(time.Now(), false)
		other := newClaim([]string{"a"}, []any{"a"}, "", time.Hour, 3)
		other.addCounters()
		other.askFence(time.UnixMicro(6), time.Minute, false)
		require.Equal(t, want, lock.Args)
		require.Equal(t, want, lockCommand(c).Args)
		require.Equal(t, want[:1], unlock.Args)
	}
}

var updateScripts = flag.Bool("update-scripts", false, "write docs/generated/scripts")

// composedFolder has the texts of the scripts that are composed in Go, so that a change of what is on
// the wire is seen in review.
const composedFolder = "../docs/generated/scripts"

func TestScriptsThatAreComposedAreWrittenDown(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef01234567"
	texts := map[string]string{}
	add := func(name, comment string, source any) {
		texts[name+".lua"] = "-- Written by make lua, not by hand.\n-- " + comment + "\n\n" + strings.TrimSpace(source.(string)) + "\n"
	}
	for _, s := range handshakeScripts {
		if s.Grants {
			add("quarantine-"+s.Name, s.Name+" with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.",
				grantingScripts.Slow(s).Source)
		}
	}
	add("quarantine-lock-fast", "quarantine-lock for a server in a run, here "+run+", and clients with 3 nodes.",
		grantingScripts.Fast(run, "the marker", "3")[lockScript].Source)

	if *updateScripts {
		require.NoError(t, os.RemoveAll(composedFolder))
		require.NoError(t, os.MkdirAll(composedFolder, 0o755))
		for name, text := range texts {
			require.NoError(t, os.WriteFile(filepath.Join(composedFolder, name), []byte(text), 0o600))
		}
	}
	files, err := filepath.Glob(composedFolder + "/*.lua")
	require.NoError(t, err)
	assert.Len(t, files, len(texts), "make lua removes what is too much")
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(composedFolder, name))
		require.NoError(t, err, "make lua writes it")
		assert.Equal(t, want, string(got), "%s: make lua writes it, after a change that is meant", name)
	}
}

// What several scripts do stands in each of them, so that each can be read alone. It must stay the same.
func TestScriptsSayTheSameInTheSameWords(t *testing.T) {
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	others, err := filepath.Glob("../internal/*/*.lua")
	require.NoError(t, err)
	files = append(files, others...)
	assert.Len(t, files, 16)
	section := regexp.MustCompile(`(?ms)^-- begin (\w+).*?^-- end [^\n]*$`)
	seen := map[string]string{}
	times := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range section.FindAllStringSubmatch(string(text), -1) {
			first, ok := seen[m[1]]
			if !ok {
				seen[m[1]] = m[0]
				continue
			}
			times++
			assert.Equal(t, first, m[0], f)
		}
	}
	assert.Len(t, seen, 9)
	assert.Equal(t, 12, times)
}

func TestScriptYesAfterANoScriptIsNoVote(t *testing.T) {
	for _, s := range []string{":2\r\n", "+OK\r\n", "$1\r\n1\r\n", "*0\r\n", ":-1\r\n", "*2\r\n:1\r\n:1\r\n", "$-1\r\n"} {
		out := lockScript.Decode(replyOf(t, s))
		require.Error(t, out.Err, s)
		require.NotErrorIs(t, out.Err, ErrTaken, s)
		out = unlockScript.Decode(replyOf(t, s))
		require.Error(t, out.Err, s)
	}
}
