package redlock

import "context"

// A nodeObserver makes events of what becomes of a node's connection, and counts for those
// that wait for a quorum of connections.
type nodeObserver struct {
	r    *core
	name string
}

func (o *nodeObserver) up() {
	o.r.ready.up.Add(1)
	o.r.ready.tell()
	o.send(Event{Kind: EventNodeUp})
}

func (o *nodeObserver) ended() {
	o.r.ready.up.Add(-1)
	o.r.ready.tell()
}

func (o *nodeObserver) changed() { o.r.ready.tell() }

func (o *nodeObserver) lost(why error) { o.send(Event{Kind: EventNodeDown, Err: why}) }

func (o *nodeObserver) settled(unknown, released int) {
	o.send(Event{Kind: EventNodeCleaned, Unknown: unknown, Cleaned: released})
}

func (o *nodeObserver) deaf(why error) { o.send(Event{Kind: EventPolling, Err: why}) }

func (o *nodeObserver) send(e Event) {
	e.Node = o.name
	o.r.events.send(context.Background(), e)
}
