package testcluster

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
