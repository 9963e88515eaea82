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

// SetDelay delays every chunk of bytes by a random time from minimum to
// maximum, in both directions. Zeros turn the delay off.
//
// A chunk's delay doesn't hold up the reading of the next one, and the order
// of the bytes is kept. Chunks already on their way keep their delay.
func (p *Proxy) SetDelay(minimum, maximum time.Duration) {
	p.SetDelays(minimum, maximum, minimum, maximum)
}

// SetDelays is [Proxy.SetDelay] with a range of its own for each direction:
// requests flow from the client to the upstream, replies flow back.
func (p *Proxy) SetDelays(reqMin, reqMax, repMin, repMax time.Duration) {
	p.change(func(f *faults) {
		f.req = span{reqMin, max(reqMin, reqMax)}
		f.rep = span{repMin, max(repMin, repMax)}
	})
}

// Lag makes a share of the chunks of bytes, from 0 to 1, later by d, in both directions,
// as lost packets are that TCP sends again. The order is kept, so that what comes behind
// such a chunk is late, too. A share of 0 ends it.
func (p *Proxy) Lag(share float64, d time.Duration) {
	p.change(func(f *faults) { f.lagShare, f.lag = share, d })
}

// Throttle has each direction of a connection store what comes, and forward up to so many bytes at a time:
// those that are there when the ones before are through, after as long as they take at rate bytes a second.
// What a connection holds when it ends is dealt with as bytes that are delayed. A rate of 0 ends it.
func (p *Proxy) Throttle(size, rate int) {
	p.change(func(f *faults) { f.slow = throttle{size, rate} })
}

// Hang holds all bytes in both directions, and holds new connections open
// without an answer, until [Proxy.Resume]. As with a frozen process, a request
// that arrived before its client closed the connection is still delivered
// after Resume.
func (p *Proxy) Hang() {
	p.change(func(f *faults) { f.hung = true })
}

// Resume ends [Proxy.Hang] and delivers the held bytes in order.
func (p *Proxy) Resume() {
	p.change(func(f *faults) { f.hung = false })
}

// BlackHole makes the proxy accept connections, read all bytes and throw them
// away. A connection that was opened in the meantime or lost bytes stays dead
// after the hole ends, since the packets are gone; idle ones work again.
func (p *Proxy) BlackHole(on bool) {
	p.change(func(f *faults) { f.hole = on })
}

// Refuse makes new connections fail: [Proxy.Dial] returns an error, and a TCP
// client is reset at once, while it connects or right after. Open connections
// stay.
func (p *Proxy) Refuse(on bool) {
	p.change(func(f *faults) { f.refuse = on })
}

// DropReplies makes the proxy deliver requests but throw their replies away.
// The connection stays up otherwise.
func (p *Proxy) DropReplies(on bool) {
	p.change(func(f *faults) { f.dropReplies = on })
}

// DropRequests makes the proxy throw requests away, while the replies to earlier ones still come. The connection stays up
// otherwise: who ends this has to break it with [Proxy.Kill], as TCP never delivers what follows lost bytes.
func (p *Proxy) DropRequests(on bool) {
	p.change(func(f *faults) { f.dropRequests = on })
}

// LateBytes sets what happens to request bytes that are still delayed when the
// client's connection ends, be it by the client or by [Proxy.Reset]: they reach
// the upstream after another random time from minimum to maximum, in order and
// on the old upstream connection, which is closed then. Zeros turn that off:
// such bytes are dropped.
func (p *Proxy) LateBytes(minimum, maximum time.Duration) {
	p.change(func(f *faults) { f.late = span{minimum, max(minimum, maximum)} })
}

// Reset breaks all current client connections at once.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.clientGone(true)
	}
}

// Kill breaks all current connections on both sides at once, as the death of
// the upstream would. Bytes on their way are dropped, late ones included.
func (p *Proxy) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.kill()
	}
}

// setDown refuses new connections because the node behind isn't running. It is
// apart from Refuse so that a restart leaves that switch as the test set it.
func (p *Proxy) setDown(down bool) {
	p.change(func(f *faults) { f.down = down })
}

// change switches faults and makes every link look at them again.
func (p *Proxy) change(set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(&p.faults)
	for l := range p.links {
		l.req.signal()
		l.rep.signal()
	}
}

// Stats counts what a [Proxy] has seen since it was created.
type Stats struct {
	Open    int // Open counts the client connections that are open now.
	Refused int // Refused counts the client connections turned away, see [Proxy.Refuse].

	Dropped int64 // Dropped counts the bytes thrown away, in both directions.
	Late    int64 // Late counts the bytes of requests that [Proxy.LateBytes] delivered.
}

// Stats returns a snapshot of the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Conns returns how many client connections are open now.
func (p *Proxy) Conns() int { return p.Stats().Open }

// Dropped returns how many bytes were thrown away, in both directions.
func (p *Proxy) Dropped() int64 { return p.Stats().Dropped }
