package redlock

import "context"

// A nodeObserver makes events of what becomes of a node's connection, and counts for those
// that wait for a quorum of connections.
type nodeObserver struct {
	r    *core
	name string
}

func (o *nodeObserver) Up() {
	o.r.ready.up.Add(1)
	o.r.ready.tell()
	o.send(Event{Kind: EventNodeUp})
}

func (o *nodeObserver) Ended() {
	o.r.ready.up.Add(-1)
	o.r.ready.tell()
}

func (o *nodeObserver) Changed() { o.r.ready.tell() }

func (o *nodeObserver) Lost(why error) { o.send(Event{Kind: EventNodeDown, Err: why}) }

func (o *nodeObserver) Settled(unknown, released int) {
	o.send(Event{Kind: EventNodeCleaned, Unknown: unknown, Cleaned: released})
}

func (o *nodeObserver) Deaf(why error) { o.send(Event{Kind: EventPolling, Err: why}) }

func (o *nodeObserver) send(e Event) {
	e.Node = o.name
	o.r.events.send(context.Background(), e)
}
