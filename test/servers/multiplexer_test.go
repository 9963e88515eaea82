package servers

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// multiplexed puts a proxy before each server that keeps its clients' connections
// whatever becomes of the server: no client notices a restart.
func multiplexed(t *testing.T, c *testcluster.Cluster) []redlock.Node {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = behindMultiplexer(t, n.Name(), n.DirectAddr)
	}
	return nodes
}

func behindMultiplexer(t *testing.T, name string, addr func() string) redlock.Node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go multiplex(client, addr)
		}
	}()
	return redlock.Node{Name: name, Pool: redlock.NewNode(ln.Addr().String()).Pool}
}

// multiplex passes commands on one by one, each on a connection that works at the time.
func multiplex(client net.Conn, addr func() string) {
	defer func() { _ = client.Close() }()
	var server redis.Conn
	at := ""
	defer func() {
		if server != nil {
			_ = server.Close()
		}
	}()
	in := bufio.NewReader(client)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		var reply any
		for range 500 {
			if now := addr(); server == nil || now != at {
				if server != nil {
					_ = server.Close()
				}
				at = now
				server, err = redis.Dial("tcp", at, redis.DialConnectTimeout(time.Second))
			}
			if err == nil {
				reply, err = server.Do(args[0].(string), args[1:]...)
			}
			if err == nil || conn.IsReply(err) {
				break
			}
			if server != nil {
				_ = server.Close()
				server = nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		if conn.IsReply(err) {
			reply = err
		}
		if _, err := io.WriteString(client, resp(reply)); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]any, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]any, n)
	for i := range args {
		length, err := number()
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:length])
	}
	return args, nil
}

// resp writes a reply of redigo's as the server had sent it.
func resp(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "$-1\r\n"
	case int64:
		return ":" + strconv.FormatInt(r, 10) + "\r\n"
	case string:
		return "+" + r + "\r\n"
	case []byte:
		return "$" + strconv.Itoa(len(r)) + "\r\n" + string(r) + "\r\n"
	case error:
		return "-" + r.Error() + "\r\n"
	case []any:
		text := "*" + strconv.Itoa(len(r)) + "\r\n"
		for _, v := range r {
			text += resp(v)
		}
		return text
	}
	return "-ERR unexpected reply\r\n"
}
