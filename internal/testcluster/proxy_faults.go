package testcluster

import "time"

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

// SetConnectDelay makes the first bytes of a client's connection later by d, which stands
// for the round trip of TCP's own handshake.
func (p *Proxy) SetConnectDelay(d time.Duration) {
	p.change(func(f *faults) { f.connect = d })
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
