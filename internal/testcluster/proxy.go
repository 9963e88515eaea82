package testcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrProxyClosed is returned by the methods of a [Proxy] that has been closed.
var ErrProxyClosed = errors.New("testcluster: proxy is closed")

// Proxy relays bytes between clients and one upstream and injects faults on
// the way. It works over TCP (see [Proxy.Listen]) and in memory (see
// [Proxy.Dial]), also both at once. It knows nothing about the protocol.
//
// Every method is safe for concurrent use, and every fault can be switched at
// any time. A fault also affects bytes that are already on their way, except
// for those being written at that very moment.
//
// The creator owns the Proxy and ends it with [Proxy.Close].
type Proxy struct {
	upstream func(ctx context.Context) (net.Conn, error)

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	links     map[*link]struct{}
	faults    faults
	stats     Stats
	seed      uint64
	opened    uint64 // Links since the seed was set: it numbers their random sequences.

	wg sync.WaitGroup // Every goroutine of the proxy.
}

// faults holds the switchable state of a proxy.
type faults struct {
	hung, hole, refuse, dropReplies, dropRequests bool

	down bool // The node behind is not running: new connections are refused as well.

	req, rep, late span

	lagShare float64       // of the chunks,
	lag      time.Duration // which are that much later
	connect  time.Duration // how much later a connection's first request is

	slow throttle
}

// span is a range of durations to draw from, both ends included.
type span struct{ min, max time.Duration }

// NewProxy returns a proxy that opens one upstream connection for each client
// connection. The context passed to upstream ends when the client connection
// is broken or the proxy is closed.
func NewProxy(upstream func(ctx context.Context) (net.Conn, error)) *Proxy {
	return &Proxy{upstream: upstream, links: map[*link]struct{}{}, seed: 1}
}

// SetSeed makes the random delays of the connections opened from now on follow
// from seed: equal seeds give the n-th connection the same delays. A new proxy
// has the seed 1.
func (p *Proxy) SetSeed(seed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seed, p.opened = seed, 0
}

// Listen accepts clients on a free loopback TCP port until the proxy is
// closed, and returns that address as host:port.
func (p *Proxy) Listen() (string, error) { return p.ListenTLS(nil) }

// ListenTLS is [Proxy.Listen] for clients that speak TLS. The bytes that the
// faults are about are those within it.
func (p *Proxy) ListenTLS(config *tls.Config) (string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if config != nil {
		ln = tls.NewListener(ln, config)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = ln.Close()
		return "", ErrProxyClosed
	}
	p.listeners = append(p.listeners, ln)
	p.wg.Go(func() { p.accept(ln) })
	return ln.Addr().String(), nil
}

// Dial opens an in-memory client connection. It returns at once even while the
// proxy hangs or is a black hole, as a connection to a listening socket would.
func (p *Proxy) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, inner := newPipe()
	if err := p.serve(inner); err != nil {
		return nil, err
	}
	return client, nil
}

// Close breaks every connection, drops all bytes on their way and waits until
// the goroutines of the proxy have ended. It is safe to call more than once.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, ln := range p.listeners {
		_ = ln.Close()
	}
	for l := range p.links {
		l.kill()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// accept serves the clients of one listener until it is closed.
func (p *Proxy) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// The likely reason is a lack of file descriptors, which passes.
			time.Sleep(time.Millisecond)
			continue
		}
		if p.serve(conn) != nil {
			abort(conn)
		}
	}
}

// serve starts to relay for a client connection.
func (p *Proxy) serve(client net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrProxyClosed
	case p.faults.refuse || p.faults.down:
		p.stats.Refused++
		return errRefused()
	}
	l := newLink(p, client)
	p.links[l] = struct{}{}
	p.opened++
	p.stats.Open++
	p.wg.Go(l.run)
	return nil
}

// errRefused looks like the error of dialling a port on which nobody listens.
func errRefused() error {
	return &net.OpError{
		Op: "dial", Net: "pipe", Addr: pipeAddr{},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
}

// abort closes a connection so that the peer sees a reset where the transport
// has such a thing.
func abort(conn net.Conn) {
	switch c := conn.(type) {
	case *net.TCPConn:
		_ = c.SetLinger(0)
	case *tls.Conn:
		abort(c.NetConn())
	case interface{ reset() }:
		c.reset()
	}
	_ = conn.Close()
}
