package main

import (
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// reserved is in every key that is no resource's. A test with the library itself shows when the
// two differ.
const reserved = "__redlock__:"

// keys names what a node stores under a prefix.
type keys struct{ prefix string }

// maxTokenBytes is the longest that a token can be.
const maxTokenBytes = tokens.Length + len(tokens.LabelMark) + tokens.MaxLabel

// key is that of a resource.
func (k keys) key(resource string) string { return k.prefix + resource }

// line is the key of the line of those that wait for a resource: a sorted set of channels, with
// the node's time in µs since which they wait.
func (k keys) line(resource string) string { return lines.Bell(k.prefix, reserved, resource) + "l" }

// counter is the key of a resource's counter, which has the last fencing token.
func (k keys) counter(resource string) string { return k.prefix + reserved + fences.Mark + resource }

// marker is the key of what a node is set up for, with quarantine.
func (k keys) marker() string { return k.prefix + reserved + "q" }

// waiterName shortens the channel of one that waits to what tells it from others.
func (k keys) waiterName(channel string) string {
	return strings.TrimPrefix(channel, k.prefix+reserved+lines.ChannelMark)
}

// resource is the resource of a key, false if the key is none.
func (k keys) resource(key string) (string, bool) {
	resource, ok := strings.CutPrefix(key, k.prefix)
	return resource, ok && resource != "" && !strings.Contains(key, reserved)
}

// check reports a resource that none can be.
func (k keys) check(resources []string) error {
	for _, res := range resources {
		if res == "" {
			return usagef("empty resource in %q", resources)
		}
		if _, ok := k.resource(k.key(res)); !ok {
			return usagef("resource %q: keys with %q are reserved", res, reserved)
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
