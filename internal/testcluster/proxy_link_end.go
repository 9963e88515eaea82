package testcluster

import "time"

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
