package redlock

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
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
	script, n := h.script, 0
	serve(c, func([]string) (string, error) {
		reply, rest, _ := bytes.Cut(script, []byte{0xff})
		script = rest
		if n++; h.polite && n <= len(handshakeScripts) {
			reply, script = []byte(bulk("ok")), h.script
		}
		return string(reply), nil
	})
}

// serve answers the requests on a connection, until an answer is an error.
func serve(c net.Conn, answer func(args []string) (string, error)) {
	defer func() { _ = c.Close() }()
	for in := bufio.NewReader(c); ; {
		args, err := readRequest(in)
		if err != nil {
			return
		}
		reply, err := answer(args)
		if err != nil {
			return
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
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

// edges are numbers that are no fence, or hardly one; other lies are not numbers.
var (
	edges = []int64{0, 1, 2, -1, -1000, fences.Max - 1, fences.Max, fences.Max + 1, math.MaxInt64, math.MinInt64}
	lies  = []string{
		"$-1\r\n", "*-1\r\n", "$4\r\n1000\r\n", "$0\r\n\r\n", "+OK\r\n", "+1000\r\n", ":1000.0\r\n", ":+1000\r\n",
		"*2\r\n:5\r\n$3\r\nabc\r\n", "*2\r\n:-1\r\n$0\r\n\r\n", "*2\r\n:1000\r\n:1001\r\n", "*2\r\n$3\r\nabc\r\n:5\r\n",
		"*3\r\n:5\r\n$3\r\nabc\r\n$3\r\nwhy\r\n", "*3\r\n:5\r\n$3\r\nabc\r\n:1000\r\n",
		"*0\r\n", "*1\r\n:1000\r\n", "*1\r\n*1\r\n:1000\r\n", "*2\r\n*1\r\n:1000\r\n$3\r\nabc\r\n",
		"-ERR x\r\n", "-OOM x\r\n", "-NOSCRIPT x\r\n", "-NOFENCE x\r\n", "-LOADING x\r\n", "-\r\n", "-1000\r\n",
	}
)

// liarsMode is what the first byte of an input says.
type liarsMode struct {
	fencing, waits, pair bool
	nodes                int
	resources            []string
}

func newLiarsMode(b byte) liarsMode {
	m := liarsMode{
		fencing: b&1 == 0, nodes: []int{1, 3, 5, 7}[b>>1&3],
		waits: b&8 != 0, pair: b&16 != 0, resources: []string{"a"},
	}
	if b&32 != 0 {
		m.resources = append(m.resources, "b")
	}
	return m
}

// tryLiars takes locks from nodes that answer as the scripts say. Whatever that is, a
// quorum has said exactly the fence of a lock. It returns how many were got, and how
// many attempts took a raise.
func tryLiars(t *testing.T, mode byte, scripts ...[]byte) (got int, raised int64) {
	t.Helper()
	m := newLiarsMode(mode)
	synctest.Test(t, func(t *testing.T) {
		nodes, liars := make([]Node, m.nodes), make([]*liar, m.nodes)
		for i := range nodes {
			liars[i] = &liar{script: scripts[i%len(scripts)], acked: map[string][]int64{}}
			nodes[i] = Node{Name: fmt.Sprint("node", i), Pool: liars[i].pool()}
		}
		opts := []Option{WithRetryCount(2)}
		if m.fencing {
			opts = append(opts, WithFencing())
		}
		r, err := New(nodes, opts...)
		require.NoError(t, err)
		calls := 1
		if m.pair {
			calls = 2
		}
		locked := make([]*Lock, calls)
		var all sync.WaitGroup
		for i := range locked {
			all.Go(func() { locked[i] = lockFromLiars(t, m, r, liars) })
		}
		all.Wait()
		for _, l := range locked {
			if l != nil {
				got++
			}
		}
		raised = r.Stats().Raised
		require.NoError(t, r.Close(context.Background()))
		for _, n := range liars {
			for n.serving.Load() > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	return got, raised
}

// lockFromLiars makes one call, and looks at the lock that it may return.
func lockFromLiars(t *testing.T, m liarsMode, r *Redlock, liars []*liar) *Lock {
	t.Helper()
	lock := r.TryLock
	if m.waits {
		lock = r.Lock
	}
	l, err := lock(context.Background(), m.resources, ttl)
	if err != nil {
		return nil
	}
	fence, counts := l.Fence(), int64(1) // What is a yes without fencing.
	if m.fencing {
		counts = fence
	}
	acks := 0
	for _, n := range liars {
		n.mu.Lock()
		if slices.Contains(n.acked[l.Token()], counts) {
			acks++
		}
		n.mu.Unlock()
	}
	if m.fencing {
		checkf(t, fence >= 1 && fence <= fences.Max, "the fence is %d", fence)
	} else {
		checkf(t, fence == 0, "the fence is %d without fencing", fence)
	}
	checkf(t, acks >= r.need, "only %d nodes have said %d", acks, counts)
	_ = l.Extend(context.Background(), ttl)
	checkf(t, l.Fence() == fence, "the fence was %d and became %d", fence, l.Fence())
	_ = l.Unlock(context.Background())
	return l
}

// checkf is for goroutines of a test, which must not end it.
func checkf(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// liarsSeeds are inputs that show what the bytes are for.
var liarsSeeds = []struct {
	mode    byte
	scripts [5]string
}{
	{2, [5]string{}}, // honest
	{2, [5]string{"\x60", "\x40", "\x40"}},
	{2, [5]string{"\x60\x60", "\x61\x60", "\x62\x60"}},                         // all differ, as do the raises
	{4, [5]string{"\x60\x80", "\x61\x81", "\x62\x85", "\x90", "\xdc\x60"}},     // a late one
	{4, [5]string{"\x60", "\xc1", "\xc2\x40", "\xc8\x40", "\xcd\x40"}},         // extra, missing, the end
	{10, [5]string{"\x98\x40", "\x98\x40", "\x98\x60\x40"}},                    // refused, then in line
	{10, [5]string{"\x98\x98\x60", "\x98\x98\x61", "\x98\x98\x62"}},            // waits twice
	{6, [5]string{"\xdc\x64", "\x86", "\x87", "\x88", "\xff\x60"}},             // more than five nodes
	{18, [5]string{"\xa4\x60", "\xa5\x61", "\xa6\x62\x40"}},                    // errors, two callers
	{34, [5]string{"\x60\x61\x62", "\x61\x61\x61", "\x62\x60\x60"}},            // two resources
	{3, [5]string{"\x60", "\x81", "\x82"}},                                     // without fencing
	{11, [5]string{"\x98\x81", "\x98\x81", "\x98\x82"}},                        // the same, waiting
	{0, [5]string{"\xd4\x05:7\r\n:", "", ""}},                                  // raw
	{2, [5]string{"\xdd\x64\x60", "\xde\x63\x60", "\xdf\x62\x61\xdd\x60\x60"}}, // all late
}

func FuzzFence(f *testing.F) {
	for _, s := range liarsSeeds {
		f.Add(s.mode, []byte(s.scripts[0]), []byte(s.scripts[1]), []byte(s.scripts[2]), []byte(s.scripts[3]), []byte(s.scripts[4]))
	}
	f.Fuzz(func(t *testing.T, mode byte, a, b, c, d, e []byte) {
		if len(a)+len(b)+len(c)+len(d)+len(e) > 1<<12 {
			t.Skip("would only take longer")
		}
		tryLiars(t, mode, a, b, c, d, e)
	})
}

// The same without a fuzzer.
func TestFenceWhateverTheReplies(t *testing.T) {
	seeds := uint64(rounds(3000, 300))
	if testcluster.RaceEnabled {
		seeds = min(seeds, 100)
	}
	got, raised := 0, int64(0)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0))
		scripts := make([][]byte, 5)
		for i := range scripts {
			scripts[i] = make([]byte, rng.IntN(8))
			for j := range scripts[i] {
				if scripts[i][j] = byte(rng.IntN(256)); rng.IntN(2) == 0 {
					scripts[i][j] = byte(64 + rng.IntN(64))
				}
			}
		}
		g, r := tryLiars(t, byte(rng.IntN(64)), scripts...)
		got, raised = got+g, raised+r
		require.False(t, t.Failed(), "seed %d", seed)
	}
	t.Logf("%d locks from %d sets of liars, %d raises", got, seeds, raised)
	require.Greater(t, got, int(seeds)/10)
	require.Greater(t, raised, int64(seeds)/10)
}

// A liar is a node that answers to requests for a lock, or to raise a counter, with
// what a script of bytes makes of them, and after its end as it should. It answers
// all other requests as it should.
type liar struct {
	serving atomic.Int64 // its goroutines, which end with the connections; one may be made while others end

	mu      sync.Mutex
	script  []byte
	counter int64

	// acked is what the client has read from it: by token the integers that were
	// answers to requests of that lock.
	acked map[string][]int64
}

func (n *liar) pool() Pool {
	return testcluster.WrapPool(
		&conn.Dialer{Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := testcluster.Pipe()
			n.serving.Add(1)
			go n.serve(server)
			return client, nil
		}, Network: "tcp", Address: "liar:1"},
		func(conn redis.Conn) redis.Conn { return &ackConn{FullConn: conn.(testcluster.FullConn), node: n} },
	)
}

func (n *liar) serve(c net.Conn) {
	defer n.serving.Add(-1)
	serve(c, n.reply)
}

// reply answers a request; an error ends the connection.
func (n *liar) reply(args []string) (string, error) {
	switch args[0] {
	case "SCRIPT":
		return bulk("ok"), nil
	case "DEL":
		return integer(0), nil
	case "DELIFEQ", "DELEX":
		return "-ERR unknown command\r\n", nil
	case "MOVE":
		return "-ERR source and destination objects are the same\r\n", nil
	case "PING":
		return "+PONG\r\n", nil
	case "SUBSCRIBE":
		return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + integer(1), nil
	}
	s := scriptOf(args[1])
	keys, err := strconv.Atoi(args[2])
	if s == nil || err != nil {
		return "", errors.New("no request")
	}
	switch {
	case isBidding(s):
		return n.lie(s, args[3+keys:])
	default:
		return integer(1), nil
	}
}

// honest is an answer as it should be.
func (n *liar) honest(s *node.Script, argv []string) int64 {
	switch s {
	case raiseScript:
		fence, _ := strconv.ParseInt(argv[1], 10, 64)
		if fence < n.counter {
			return 0
		}
		n.counter = fence
		return fence
	case fencedLockScript, fencedQueueScript:
		n.counter++
		return n.counter
	default:
		return 1
	}
}

// lie answers with what the next bytes of the script say. 0 to 127 are numbers near
// the one that is asked for, since most others end an attempt at once.
func (n *liar) lie(s *node.Script, argv []string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := func() int {
		if len(n.script) == 0 {
			return 0
		}
		b := n.script[0]
		n.script = n.script[1:]
		return int(b)
	}
	for {
		switch b := next(); {
		case b < 64:
			return integer(n.honest(s, argv)), nil
		case b < 96:
			return integer(near(s, argv, 0)), nil
		case b < 128:
			return integer(near(s, argv, int64(b%5-2))), nil
		case b < 144:
			return integer(edges[b%len(edges)]), nil
		case b < 192:
			return lies[(b-144)%len(lies)], nil
		case b < 200: // One more than was asked for.
			return integer(near(s, argv, 0)) + integer(near(s, argv, int64(b%3-1))), nil
		case b < 204: // Then the next answer is taken for this one.
			return "", nil
		case b < 212:
			return "", io.EOF
		case b < 220:
			raw := n.script[:min(next(), len(n.script))]
			n.script = n.script[len(raw):]
			return string(raw), nil
		default: // Late.
			n.mu.Unlock()
			time.Sleep(time.Duration(b-219) * 4 * time.Millisecond)
			n.mu.Lock()
		}
	}
}

// scriptOf returns the library's script with this hash or source.
func scriptOf(program string) *node.Script {
	for _, s := range append([]*node.Script{node.Look, node.Probe}, handshakeScripts...) {
		if program == s.Hash || program == s.Source {
			return s
		}
	}
	return nil
}

// isBidding reports whether a lock is got by the answers to a script.
func isBidding(s *node.Script) bool {
	switch s {
	case lockScript, fencedLockScript, queueScript, fencedQueueScript, raiseScript:
		return true
	default:
		return false
	}
}

// An ackConn notes what the client reads. It finds the request of a reply as the
// client does: by their order.
type ackConn struct {
	testcluster.FullConn

	node   *liar
	mu     sync.Mutex
	tokens []string // of the requests in flight; "": another request
}

func (c *ackConn) Send(verb string, args ...any) error {
	token := ""
	if strings.HasPrefix(verb, "EVAL") && isBidding(scriptOf(args[0].(string))) {
		token = args[2+args[1].(int)].(string)
	}
	c.mu.Lock()
	c.tokens = append(c.tokens, token)
	c.mu.Unlock()
	return c.FullConn.Send(verb, args...)
}

func (c *ackConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.FullConn.ReceiveWithTimeout(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !conn.IsReply(err) || len(c.tokens) == 0 {
		return reply, err
	}
	token := c.tokens[0]
	c.tokens = c.tokens[1:]
	if said, ok := reply.(int64); ok && token != "" {
		c.node.mu.Lock()
		defer c.node.mu.Unlock()
		c.node.acked[token] = append(c.node.acked[token], said)
	}
	return reply, err
}

// readRequest reads one command.
func readRequest(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != kind {
			return 0, errors.Join(err, errors.New("no request"))
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	count, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, count)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

// near is a number near the one that the request is about: the fence to which the
// counter is to be raised, or one that is the same on all nodes.
func near(s *node.Script, argv []string, by int64) int64 {
	if s != raiseScript {
		return 1000 + by
	}
	fence, _ := strconv.ParseInt(argv[1], 10, 64)
	return fence + by
}
