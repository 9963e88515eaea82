package main

import "strings"

// layout is where the library keeps things on a node. What it does not tell by its API, who
// waits and the counters of fencing, the tool reads from there. A test with the library itself
// shows when the two differ.
type layout struct{ prefix string }

const (
	reservedMark  = "__redlock__:" // in every key that is no resource's
	maxTokenBytes = 32 + len(" owner=") + 128
)

// key is that of a resource.
func (l layout) key(resource string) string { return l.prefix + resource }

// line is the key of the line of those that wait for a resource: a sorted set of channels, with
// the node's time in µs since which they wait.
func (l layout) line(resource string) string {
	return l.prefix + reservedMark + "w:" + resource + ":bl"
}

// counter is the key of a resource's counter, which has the last fencing token.
func (l layout) counter(resource string) string {
	return l.prefix + reservedMark + "f:" + resource
}

// waiterName shortens the channel of one that waits to what tells it from others.
func (l layout) waiterName(channel string) string {
	return strings.TrimPrefix(channel, l.prefix+reservedMark+"c:")
}

// resource is the resource of a key, false if the key is none.
func (l layout) resource(key string) (string, bool) {
	resource, ok := strings.CutPrefix(key, l.prefix)
	return resource, ok && resource != "" && !strings.Contains(key, reservedMark)
}
