package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
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
		require.Equal(t, node.Outcome{Stance: node.No, Err: ErrTaken, Holder: string(d), HolderTTL: 5 * time.Millisecond}, out, s.Name)
		out = s.Decode([]any{int64(5), d, []byte("me")})
		require.Equal(t, node.Outcome{Stance: node.No, Err: ErrTaken, Holder: string(d), Owner: "me", HolderTTL: 5 * time.Millisecond}, out, s.Name)
		for _, label := range []string{"", "x\ny", "\xff", strings.Repeat("x", tokens.MaxLabel+1)} {
			out = s.Decode([]any{int64(5), d, []byte(label)})
			require.ErrorIs(t, out.Err, ErrTaken)
			require.Empty(t, out.Owner, "what is no label is not shown")
		}
		for _, bad := range [][]any{{int64(5), d, int64(1)}, {int64(5), d, nil}, {int64(5), d, d, d, d}, {int64(5)}, {d, int64(5), d}} {
			require.NotErrorIs(t, s.Decode(bad).Err, ErrTaken, "%s %v", s.Name, bad)
			require.Error(t, s.Decode(bad).Err, "%s %v", s.Name, bad)
		}
	}
	out := queueScript.Decode([]any{int64(5), d, []byte("me"), []byte("why")})
	require.Equal(t, "me", out.Owner)
	require.Equal(t, "why", out.Unqueued)
	require.Equal(t, "me", inspectScript.Decode([]any{d, int64(5), d, []byte("me")}).Owner)
	require.Empty(t, inspectScript.Decode([]any{d, int64(5), d}).Owner)
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
			require.Equal(t, s, tokens.LabelOf(newClaim(nil, nil, s, ttl, 1).token))
		}
	})
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

// A command is written when its node comes to it, which may be after others have been made
// for the same claim, and after claims of other calls have come and gone.
func TestScriptArgumentsOfALockRequestStayWhatTheyAre(t *testing.T) {
	resources, keys := []string{"a"}, []any{"a"}
	queue := &queueKeys{keys: []any{"a", "bell"}}
	for _, fenced := range []bool{false, true} {
		c := newClaim(resources, keys, "", time.Minute, 3)
		want := []any{c.token, int64(60_000)}
		if fenced {
			c.withFencing(newFencing("", resources, keys, time.Hour), time.UnixMicro(5))
			want = append(want, int64(5), int64(3_600_000))
			_ = raiseCommand(c.args, 7, c.fencing)
		}
		lock := c.lockCommand()
		_ = queueCommand(queue.keys, "channel", c.args, c.fencing, time.Second, time.Minute, true)
		_, _ = c.Release(time.Now(), false)
		c.wake = queue
		unlock, _ := c.Release(time.Now(), false)
		c.leaveUntil(time.Now().Add(time.Second))
		_, _ = c.Release(time.Now(), false)
		other := newClaim(resources, keys, "", time.Hour, 3)
		other.withFencing(newFencing("", resources, keys, time.Minute), time.UnixMicro(6))
		require.Equal(t, want, lock.Args)
		require.Equal(t, want, c.lockCommand().Args)
		require.Equal(t, want[:1], unlock.Args)
	}
}
