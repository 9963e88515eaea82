package main

import (
	"time"

	"github.com/seed6c881748/redlock/redlock/stored"
)

// checkResources reports a resource that none can be.
func checkResources(k stored.Keys, resources []string) error {
	for _, res := range resources {
		if res == "" {
			return usagef("empty resource in %q", resources)
		}
		if _, ok := k.Resource(k.Lock(res)); !ok {
			return usagef("resource %q: keys with %q are reserved", res, stored.Reserved)
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
