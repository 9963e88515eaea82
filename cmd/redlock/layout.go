package main

import (
	"strings"
	"time"
)

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

// check reports a resource that none can be.
func (l layout) check(resources []string) error {
	for _, res := range resources {
		if res == "" {
			return usagef("empty resource in %q", resources)
		}
		if _, ok := l.resource(l.key(res)); !ok {
			return usagef("resource %q: keys with %q are reserved", res, reservedMark)
		}
	}
	return nil
}

// msOf is a number of milliseconds.
func msOf(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// ttlJSON is the life of a key in milliseconds, -1 if it does not expire.
func ttlJSON(ttl time.Duration) *int64 {
	ms := max(ttl.Milliseconds(), -1)
	return &ms
}
