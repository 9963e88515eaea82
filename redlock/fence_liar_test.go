package redlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
	defer func() { _ = c.Close() }()
	for in := bufio.NewReader(c); ; {
		args, err := readRequest(in)
		if err != nil {
			return
		}
		reply, err := n.reply(args)
		if err != nil {
			return
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}

// reply answers a request; an error ends the connection.
func (n *liar) reply(args []string) (string, error) {
	switch args[0] {
	case "SCRIPT":
		return bulk("ok"), nil
	case "DEL":
		return integer(0), nil
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
	for _, s := range append([]*node.Script{node.Look}, handshakeScripts...) {
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
