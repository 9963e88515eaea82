package redlocktest

import (
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/reserved"
)

// Holder returns the token that more than half of the nodes store for resource, or "" if there
// is none. It is the Token of the lock that has the resource, or a foreign token after
// [Cluster.Take].
func (c *Cluster) Holder(resource string) string {
	c.tb.Helper()
	seen := make(map[string]int)
	for _, n := range c.nodes {
		token, ok, err := n.Get(c.prefix + resource)
		c.failed("Holder", err)
		if !ok {
			continue
		}
		if seen[token]++; seen[token] >= c.need() {
			return token
		}
	}
	return ""
}

// Held returns the resources for which at least one node stores a token, sorted.
// It reads the nodes whether they answer clients or not. Unlock and failed
// attempts remove keys in the background: see [Cluster.AssertFree].
func (c *Cluster) Held() []string {
	c.tb.Helper()
	var held []string
	for _, n := range c.nodes {
		keys, err := n.Keys()
		c.failed("Held", err)
		for key := range keys {
			if !reserved.Has(key) {
				held = append(held, strings.TrimPrefix(key, c.prefix))
			}
		}
	}
	slices.Sort(held)
	return slices.Compact(held)
}

// AssertFree reports an error unless all locks were released. It waits for releases in the
// background, at most 5 s. The nodes must answer: call Recover before, if they do not.
func (c *Cluster) AssertFree() {
	c.tb.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		held := c.Held()
		if len(held) == 0 {
			return
		}
		if !time.Now().Before(end) {
			c.tb.Errorf("redlocktest: still locked on some node: %q", held)
			return
		}
	}
}
