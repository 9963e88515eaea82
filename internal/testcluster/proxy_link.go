package testcluster

import (
	"context"
	"net"
	"sync"
	"time"
)

// chunkSize is how many bytes are relayed at once.
const chunkSize = 32 << 10

// link joins one client connection to its upstream connection.
//
// It has four goroutines: one reads and one writes in each direction. The one
// that writes requests also dials the upstream, and it outlives the client
// while there are held or late bytes to deliver.
type link struct {
	p      *Proxy
	client net.Conn
	ctx    context.Context //nolint:containedctx // It lives as long as the link.
	cancel context.CancelFunc

	// The rest is guarded by the proxy's lock.
	server   net.Conn // Nil until dialled.
	req, rep lane
	gone     bool // The client's side has ended.
	holed    bool // Bytes were lost, so nothing may be delivered any more.
}

// newLink is called with the proxy's lock held.
func newLink(p *Proxy, client net.Conn) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{
		p: p, client: client, ctx: ctx, cancel: cancel, holed: p.faults.hole,
		req: newLane(p.seed, 2*p.opened), rep: newLane(p.seed, 2*p.opened+1),
	}
}

// run relays until both sides have ended.
func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(l.readRequests)
	wg.Go(l.writeReplies)
	if server := l.dial(); server != nil {
		wg.Go(func() { l.readReplies(server) })
		l.writeRequests(server)
		wg.Wait()
		_ = server.Close()
	}
	wg.Wait()
	l.cancel()
	l.p.mu.Lock()
	delete(l.p.links, l)
	l.p.mu.Unlock()
}

// dial opens the upstream connection as soon as the link isn't held. It
// returns nil when there is no use for one.
func (l *link) dial() net.Conn {
	if !l.awaitUpstream() {
		l.serverGone()
		return nil
	}
	server, err := l.p.upstream(l.ctx)
	l.p.mu.Lock()
	if err == nil && !l.req.dead {
		l.server = server
		l.p.mu.Unlock()
		return server
	}
	// A server that can't be reached looks like one that died.
	l.clientGone(true)
	l.p.mu.Unlock()
	if err == nil {
		abort(server)
	}
	l.serverGone()
	return nil
}

// awaitUpstream blocks while the proxy hangs or the link's bytes are lost
// anyway. It reports whether an upstream connection is needed.
func (l *link) awaitUpstream() bool {
	for {
		l.p.mu.Lock()
		done := l.req.dead || l.req.eof && (len(l.req.queue) == 0 || l.holed)
		ready := !l.p.faults.hung && !l.holed
		l.p.mu.Unlock()
		if done || ready {
			return !done
		}
		l.req.wait(-1)
	}
}

func (l *link) readRequests() {
	buf := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buf)
		l.p.mu.Lock()
		if n > 0 {
			l.accept(&l.req, buf[:n], l.p.faults.dropRequests)
		}
		if err != nil {
			l.clientGone(false)
		}
		l.p.mu.Unlock()
		if err != nil {
			_ = l.client.Close()
			return
		}
	}
}

func (l *link) readReplies(server net.Conn) {
	buf := make([]byte, chunkSize)
	for {
		n, err := server.Read(buf)
		l.p.mu.Lock()
		if n > 0 && !l.gone {
			l.accept(&l.rep, buf[:n], l.p.faults.dropReplies)
		}
		l.p.mu.Unlock()
		if err != nil {
			l.serverGone()
			return
		}
	}
}

// accept queues bytes that were read, unless a fault takes them. It is called
// with the proxy's lock held.
func (l *link) accept(ln *lane, data []byte, drop bool) {
	if l.p.faults.hole {
		l.holed = true
	}
	if l.holed || drop || ln.dead {
		l.p.stats.Dropped += int64(len(data))
		return
	}
	if slow := l.p.faults.slow; slow.rate > 0 {
		ln.throttle(data, slow)
		return
	}
	delay := l.p.faults.req
	if ln == &l.rep {
		delay = l.p.faults.rep
	}
	var lag time.Duration
	if f := &l.p.faults; f.lagShare > 0 && ln.rng.Float64() < f.lagShare {
		lag = f.lag
	}
	ln.push(data, delay, lag)
}

// writeRequests delivers requests until none will come, and then hangs up.
func (l *link) writeRequests(server net.Conn) {
	for {
		c, ok := l.next(&l.req)
		if !ok {
			hangUp(server)
			return
		}
		n, err := server.Write(c.data)
		if c.late {
			l.p.mu.Lock()
			l.p.stats.Late += int64(n)
			l.p.mu.Unlock()
		}
		if err != nil {
			_ = server.Close()
			return
		}
	}
}

// hangUp tells the server that no more requests will come. Where possible it
// closes only that direction, because a socket that is closed with unread
// replies resets the connection, and the server may then lose the last
// requests.
func hangUp(server net.Conn) {
	if c, ok := server.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		return
	}
	_ = server.Close()
}

func (l *link) writeReplies() {
	for {
		c, ok := l.next(&l.rep)
		if !ok {
			break
		}
		if _, err := l.client.Write(c.data); err != nil {
			break
		}
	}
	// This ends readRequests, whether it was the server or the client that
	// hung up.
	_ = l.client.Close()
}

// next waits for the next chunk to deliver. It reports false when none will
// come.
func (l *link) next(ln *lane) (chunk, bool) {
	for {
		c, wait, ok := l.poll(ln)
		if wait == 0 {
			return c, ok
		}
		ln.wait(wait)
	}
}

// poll returns the next chunk if it is due, or else how long to wait for it,
// where a negative time means until the lane is signalled.
func (l *link) poll(ln *lane) (c chunk, wait time.Duration, ok bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	f := &l.p.faults
	for {
		switch {
		case ln.dead:
			return chunk{}, 0, false
		case f.hung:
			return chunk{}, -1, false
		case len(ln.queue) == 0:
			// The end of a connection whose packets are lost is lost as well.
			if ln.eof && (ln == &l.req || !l.holed && !f.hole) {
				return chunk{}, 0, false
			}
			return chunk{}, -1, false
		}
		c = ln.queue[0]
		if wait = time.Until(c.due); wait > 0 {
			return chunk{}, wait, false
		}
		ln.queue = ln.queue[1:]
		l.holed = l.holed || f.hole
		dropped := f.dropReplies
		if ln == &l.req {
			dropped = f.dropRequests
		}
		if !l.holed && !dropped {
			return c, 0, true
		}
		l.p.stats.Dropped += int64(len(c.data))
	}
}

// clientGone ends the client's side of the link, by a reset or because the
// client hung up. It is called with the proxy's lock held.
func (l *link) clientGone(reset bool) {
	if reset {
		abort(l.client)
	}
	if l.gone {
		return
	}
	l.gone = true
	l.p.stats.Open--
	l.p.stats.Dropped += l.rep.discard()
	hung, now := l.p.faults.hung, time.Now()
	l.p.stats.Dropped += l.req.rescue(func(c chunk) bool {
		// What has arrived is read by the server even if the client has
		// hung up since, and a frozen server reads it once it is resumed.
		return !reset && (hung || !c.due.After(now))
	}, l.p.faults.late)
}

// serverGone ends the upstream's side of the link: the replies that came are
// still delivered, then the client's connection is closed.
func (l *link) serverGone() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.stats.Dropped += l.req.discard()
	l.rep.finish()
}

// kill breaks both sides of the link and drops everything. It is called with
// the proxy's lock held.
func (l *link) kill() {
	l.clientGone(true)
	l.p.stats.Dropped += l.req.discard()
	l.cancel()
	if l.server != nil {
		abort(l.server)
	}
}
