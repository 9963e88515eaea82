package redlock

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// hostile is a server that answers with what a test gives it.
type hostile struct {
	polite bool   // the handshake is answered as it should be
	script []byte // everything after that, a piece per request
}

// dial returns a connection to the server. Its goroutine ends with it.
func (h hostile) dial() (redis.Conn, error) {
	client, server := testcluster.Pipe()
	go h.serve(server)
	return redis.NewConn(client, 0, 0), nil
}

func (h hostile) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	script, in := h.script, bufio.NewReader(c)
	for n := 1; readRequest(in) == nil; n++ {
		reply, rest, _ := bytes.Cut(script, []byte{0xff})
		script = rest
		if h.polite && n <= len(handshakeScripts) {
			reply, script = []byte("+ok\r\n"), h.script
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// readRequest reads one command, whatever it says.
func readRequest(in *bufio.Reader) error {
	var args, size int
	_, err := fmt.Fscanf(in, "*%d\r\n", &args)
	for i := 0; i < args && err == nil; i++ {
		if _, err = fmt.Fscanf(in, "$%d\r\n", &size); err == nil {
			_, err = in.Discard(size + 2)
		}
	}
	return err
}

// tryHostile uses a lock in every way on hostile servers. Nothing may panic, hang or take longer than its timeouts, and
// no lock may have a fence that is none.
func tryHostile(t *testing.T, h hostile, opts ...Option) {
	t.Helper()
	inTime := func(limit time.Duration, call func()) {
		start := time.Now()
		call()
		require.LessOrEqual(t, time.Since(start), limit)
	}
	synctest.Test(t, func(t *testing.T) {
		nodes := make([]Node, 3)
		for i := range nodes {
			pool := &redis.Pool{Dial: h.dial, MaxIdle: 1}
			defer func() { _ = pool.Close() }()
			nodes[i] = Node{Name: fmt.Sprint("node", i), Pool: pool}
		}
		r, err := New(nodes, append(opts, WithRetryCount(1))...)
		require.NoError(t, err)
		var l *Lock
		inTime(DefaultConnectTimeout+4*DefaultNodeTimeout+DefaultRetryDelay+DefaultRetryJitter, func() {
			l, err = r.Lock(context.Background(), []string{"a"}, ttl)
		})
		if err == nil {
			require.Equal(t, len(opts) > 0, l.Fence() >= 1 && l.Fence() <= fences.Max)
			_ = l.Extend(context.Background(), ttl)
			inTime(DefaultNodeTimeout, func() { _ = l.Unlock(context.Background()) })
		} else {
			require.Len(t, votesOf(t, err), 3)
			_ = err.Error()
		}
		inTime(DefaultNodeTimeout, func() { _ = r.Release(context.Background(), []string{"a"}, tokens.New()) })
		_, err = r.Inspect(context.Background(), "a")
		require.NoError(t, err)
		time.Sleep(20 * time.Second) // Reconnects, PINGs.
		_ = r.Stats()
		inTime(3*DefaultNodeTimeout, func() { require.NoError(t, r.Close(context.Background())) })
	})
}

// redigo allocates what a reply announces, which a fuzzer must not be allowed to make gigabytes of.
var largeNumber = regexp.MustCompile(`\d{6}`)

func FuzzReplies(f *testing.F) {
	for _, s := range []string{
		"", ":1\r\n", ":1\r\n\xff:1\r\n\xff:1\r\n", strings.Repeat(":1\r\n", 9), ":0\r\n", ":-1\r\n", ":2\r\n", "+OK\r\n",
		"-NOSCRIPT No matching script.\r\n", "-NOSCRIPT x\r\n\xff-NOSCRIPT x\r\n\xff:1\r\n", "-ERR\r\n", "-\r\n",
		"*2\r\n:5\r\n$3\r\nabc\r\n", "*2\r\n:-1\r\n$0\r\n\r\n", "*2\r\n$1\r\nx\r\n:1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n",
		"*3\r\n$1\r\nx\r\n:1\r\n$1\r\ny\r\n", "$5\r\nab", "*1\r\n*1\r\n*1\r\n:1\r\n", "\r\n", "x", "\x00\x01\x02", ":99999\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	} {
		f.Add(true, []byte(s))
		f.Add(false, []byte(s))
	}
	f.Fuzz(func(t *testing.T, polite bool, script []byte) {
		if largeNumber.Match(script) || len(script) > 1<<16 {
			t.Skip("would only measure redigo's appetite for memory")
		}
		tryHostile(t, hostile{polite, script})
		tryHostile(t, hostile{polite, script}, WithFencing())
	})
}

// redigo panics at such a length; that must cost the node's vote, not the process.
func TestReplyOfAbsurdLengthIsOnlyALostVote(t *testing.T) {
	for _, s := range []string{"$9223372036854775807\r\n", "*9223372036854775807\r\n", "$99999999999999999999999\r\n"} {
		for _, polite := range []bool{true, false} {
			tryHostile(t, hostile{polite, []byte(s)})
		}
	}
}
