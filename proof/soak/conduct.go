package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A sample is every figure at one moment; those of the servers are of all of them together.
type sample struct {
	At time.Duration `json:"at"`
	own
	Connections float64 `json:"connections"` // Of the client, through the proxies.
	Keys        float64 `json:"keys"`
	ServerMem   float64 `json:"serverMem"` // MB
}

// A fault is over when what it returned has been called.
type fault func(n *testcluster.Node) (end func() error, err error)

// faults are mild: the locks go on, and every path of an error is taken again and again.
var faults = []fault{
	func(n *testcluster.Node) (func() error, error) { n.Proxy().Reset(); return nil, nil },
	func(n *testcluster.Node) (func() error, error) {
		return func() error { return n.Restart(true) }, n.Stop()
	},
	func(n *testcluster.Node) (func() error, error) { return n.Resume, n.Hang() },
	func(n *testcluster.Node) (func() error, error) {
		n.Proxy().DropReplies(true)
		return func() error {
			n.Proxy().Refuse(true)
			n.Proxy().Reset()
			n.Proxy().DropReplies(false)
			n.Proxy().Refuse(false)
			return nil
		}, nil
	},
	func(n *testcluster.Node) (func() error, error) {
		n.Proxy().SetDelay(0, 50*time.Millisecond)
		return func() error { n.Proxy().SetDelay(0, 0); return nil }, nil
	},
}

// soak runs the client over three servers, with a fault every two seconds on average, and samples.
func soak(ctx context.Context, length, every time.Duration, seed uint64) (r report, err error) {
	c, err := testcluster.StartServers(3, testcluster.WithProxy(), testcluster.WithAppendOnly()) //nolint:contextcheck // It ends by Close.
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client, err := start(c.Addrs())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, client.end()) }()

	r = report{Started: time.Now(), Time: length, Seed: seed}
	stop, faulty := context.WithTimeout(ctx, length)
	defer faulty()
	torn := make(chan error, 1)
	go func() {
		var tearErr error
		r.Faults, tearErr = tear(stop, c, rand.New(rand.NewPCG(seed, 0)))
		torn <- tearErr
	}()
	next := time.NewTicker(every)
	defer next.Stop()
	for stop.Err() == nil {
		select {
		case <-stop.Done():
			continue
		case <-next.C:
		}
		s := sample{At: time.Since(r.Started)}
		if s.own, err = client.sample(); err != nil {
			return r, errors.Join(err, <-torn)
		}
		s.Connections = float64(connections(c))
		s.servers(ctx, c)
		r.Samples, r.Locks = append(r.Samples, s), s.Locks
	}
	if err = errors.Join(<-torn, ctx.Err()); err != nil {
		return r, err
	}
	r.Verdicts, r.Flat = judge(r.Samples)
	return r, nil
}

// tear makes faults, one at a time, until ctx ends.
func tear(ctx context.Context, c *testcluster.Cluster, random *rand.Rand) (count int, err error) {
	for ctx.Err() == nil {
		rest(ctx, time.Duration(random.Int64N(int64(2*time.Second))))
		n := c.Nodes[random.IntN(len(c.Nodes))]
		end, err := faults[random.IntN(len(faults))](n)
		if err != nil {
			return count, err
		}
		count++
		rest(ctx, time.Duration(random.Int64N(int64(2*time.Second))))
		if end != nil {
			if err = end(); err != nil {
				return count, err
			}
		}
	}
	return count, nil
}

func connections(c *testcluster.Cluster) (all int) {
	for _, n := range c.Nodes {
		all += n.Proxy().Conns()
	}
	return all
}

var usedMemory = regexp.MustCompile(`used_memory:(\d+)`)

// servers adds what the servers say. One that is down says nothing: then the sample has no such figures.
func (s *sample) servers(ctx context.Context, c *testcluster.Cluster) {
	var keys, mem float64
	for _, n := range c.Nodes {
		k, m, err := ask(ctx, n.DirectAddr())
		if err != nil {
			return
		}
		keys, mem = keys+k, mem+m
	}
	s.Keys, s.ServerMem = keys, mem/(1<<20)
}

func ask(ctx context.Context, addr string) (keys, mem float64, err error) {
	within := 200 * time.Millisecond // A frozen server does not answer.
	conn, err := redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(within), redis.DialReadTimeout(within))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	size, err := redis.Int64(conn.Do("DBSIZE"))
	if err != nil {
		return 0, 0, err
	}
	info, err := redis.String(conn.Do("INFO", "memory"))
	if err != nil {
		return 0, 0, err
	}
	found := usedMemory.FindStringSubmatch(info)
	if found == nil {
		return 0, 0, fmt.Errorf("%s: no used_memory in %q", addr, info)
	}
	mem, err = strconv.ParseFloat(found[1], 64)
	return float64(size), mem, err
}

// A process is the client's.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(addrs []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "client")}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err = p.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(p.in, strings.Join(addrs, " "))
	return p, err
}

func (p *process) sample() (o own, err error) {
	if _, err = fmt.Fprintln(p.in, "sample"); err != nil {
		return o, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(line, &o)
}

func (p *process) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
