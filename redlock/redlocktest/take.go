package redlocktest

import (
	"fmt"
	"time"
)

// Take has somebody else take resource: after it, every node stores a foreign token for the
// resource, for ttl, rounded up to milliseconds; a ttl of 0 has no end. TryLock of it then
// fails with redlock.ErrTaken, and Lock waits. Take also works while nodes hang or are stopped.
// A previous holder has lost the resource, and finds out as after [Cluster.Forget].
//
// The returned function releases it: after that, no node stores that token. It does no harm to
// whoever has the resource by then, and may be called again, or never. A Lock that waits gets
// the resource after a retry delay, 200 ms by default.
func (c *Cluster) Take(resource string, ttl time.Duration) (release func()) {
	c.tb.Helper()
	if resource == "" || ttl < 0 {
		c.tb.Errorf("redlocktest: Take(%q, %v): it takes a resource, and a ttl of 0 or more", resource, ttl)
		return func() {}
	}
	c.mu.Lock()
	c.taken++
	token := fmt.Sprintf("redlocktest-%d", c.taken)
	c.mu.Unlock()
	ttl = (ttl + time.Millisecond - 1).Truncate(time.Millisecond)
	for _, n := range c.nodes {
		c.failed("Take", n.Set(c.prefix+resource, token, ttl))
	}
	return func() { c.remove(func(value string) bool { return value == token }) }
}

// Forget deletes the key of resource on every node, whoever has it, as if all of
// them had lost their data. The resource is free then.
//
// The holder finds out from the nodes, not from this call: the contexts of Do and KeepAlive end
// with the cause redlock.ErrLost at their next extension, at most a third of their ttl and a
// node timeout later; Extend and Unlock fail with redlock.ErrLost. In a bubble that wait takes
// no real time; elsewhere use a short ttl, or [Cluster.Lose].
func (c *Cluster) Forget(resource string) {
	c.tb.Helper()
	c.settle() // Otherwise a node could still store it.
	for _, n := range c.nodes {
		c.failed("Forget", n.Del(c.prefix+resource))
	}
}

// remove deletes the keys with a value for which is returns true, on every node.
func (c *Cluster) remove(is func(value string) bool) {
	c.tb.Helper()
	for _, n := range c.nodes {
		keys, err := n.Keys()
		c.failed("reading keys", err)
		for key, state := range keys {
			if is(state.Value) {
				c.failed("deleting a key", n.Del(key))
			}
		}
	}
}
