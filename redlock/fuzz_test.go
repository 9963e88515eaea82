package redlock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

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
	in, script := bufio.NewReader(c), h.script
	for n := 0; ; n++ {
		if err := skipRequest(in); err != nil {
			return
		}
		reply := script
		if i := strings.IndexByte(string(script), 0xff); i >= 0 {
			reply, script = script[:i], script[i+1:]
		} else {
			script = nil
		}
		if h.polite && n < len(handshakeScripts) {
			reply, script = []byte("$2\r\nok\r\n"), h.script
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// skipRequest reads one command.
func skipRequest(in *bufio.Reader) error {
	var args, size int
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(line, "*%d\r\n", &args); err != nil {
		return err
	}
	for range args {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(line, "$%d\r\n", &size); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, int64(size)+2); err != nil {
			return err
		}
	}
	return nil
}

// digits returns the longest run of digits: redigo allocates what a reply
// announces, which a fuzzer must not be allowed to make gigabytes of.
func digits(b []byte) int {
	longest, run := 0, 0
	for _, c := range b {
		if c < '0' || c > '9' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// tryHostile uses a lock in every way on hostile servers. Nothing may panic,
// hang or take longer than its timeouts, and nothing may count as a vote that
// is not one.
func tryHostile(t *testing.T, h hostile) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes := make([]Node, 3)
		for i := range nodes {
			nodes[i] = Node{Name: fmt.Sprint("node", i), Pool: &redis.Pool{Dial: h.dial, MaxIdle: 1}}
		}
		r, err := New(nodes, WithRetryCount(1))
		require.NoError(t, err)
		start := time.Now()
		l, err := r.Lock(context.Background(), []string{"a"}, ttl)
		require.LessOrEqual(t, time.Since(start), DefaultConnectTimeout+4*DefaultNodeTimeout+DefaultRetryDelay+DefaultRetryJitter)
		if err == nil {
			_ = l.Extend(context.Background(), ttl)
			start = time.Now()
			_ = l.Unlock(context.Background())
			require.LessOrEqual(t, time.Since(start), DefaultNodeTimeout)
		} else {
			require.Len(t, votesOf(t, err), 3)
			_ = err.Error()
		}
		start = time.Now()
		_ = r.Release(context.Background(), []string{"a"}, tokens.New())
		require.LessOrEqual(t, time.Since(start), DefaultNodeTimeout)
		_, err = r.Inspect(context.Background(), "a")
		require.NoError(t, err)
		time.Sleep(20 * time.Second) // Reconnects, PINGs.
		_ = r.Stats()
		start = time.Now()
		require.NoError(t, r.Close(context.Background()))
		require.LessOrEqual(t, time.Since(start), 3*DefaultNodeTimeout)
		for _, n := range nodes {
			_ = n.Pool.(*redis.Pool).Close()
		}
	})
}

func FuzzReplies(f *testing.F) {
	for _, s := range []string{
		"", ":1\r\n", ":1\r\n\xff:1\r\n\xff:1\r\n", ":1\r\n:1\r\n:1\r\n", ":0\r\n", ":-1\r\n", ":2\r\n", "+OK\r\n",
		"-NOSCRIPT No matching script.\r\n", "-NOSCRIPT x\r\n\xff-NOSCRIPT x\r\n\xff:1\r\n", "-ERR\r\n", "-\r\n",
		"*2\r\n:5\r\n$3\r\nabc\r\n", "*2\r\n:-1\r\n$0\r\n\r\n", "*2\r\n$1\r\nx\r\n:1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n",
		"*3\r\n$1\r\nx\r\n:1\r\n$1\r\ny\r\n", "$5\r\nab", "*1\r\n*1\r\n*1\r\n:1\r\n", "\r\n", "x", "\x00\x01\x02", ":99999\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	} {
		f.Add(true, []byte(s))
		f.Add(false, []byte(s))
	}
	f.Fuzz(func(t *testing.T, polite bool, script []byte) {
		if digits(script) > 5 || len(script) > 1<<16 {
			t.Skip("would only measure redigo's appetite for memory")
		}
		tryHostile(t, hostile{polite, script})
	})
}

// redigo panics at such a length; that must cost the node's vote, not the
// process.
func TestReplyOfAbsurdLengthIsOnlyALostVote(t *testing.T) {
	for _, s := range []string{"$9223372036854775807\r\n", "*9223372036854775807\r\n", "$99999999999999999999999\r\n"} {
		for _, polite := range []bool{true, false} {
			tryHostile(t, hostile{polite, []byte(s)})
		}
	}
}
