package course

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/history"
)

// finish ends the work and writes down what is left.
func (r *run) finish() {
	var all sync.WaitGroup
	for _, c := range r.everybody() {
		if p := c.process(); p != nil && !slices.Contains(r.guests, c) {
			all.Go(func() { r.stop(p) })
		}
	}
	for _, g := range r.guests {
		all.Go(func() { r.dismiss(g) })
	}
	all.Wait()
	r.stopLooking()
	keys := r.awaitNoKeys()
	for i, n := range r.nodes {
		r.observer.Log(history.Event{Kind: history.Keys, Node: &i, Keys: keys[i], Detail: tokens(n.DirectAddr(), keys[i])})
	}
	for _, c := range r.everybody() {
		if p := c.process(); p != nil {
			c.set(nil)
			r.quit(p)
		}
	}
	r.fail(r.observer.Drain(cmp.Or(r.Hang, hang)))
	r.observer.LogRegisters()
	r.observer.Log(history.Event{Kind: history.End})
}

// awaitNoKeys waits until no lock is left on any node, as long as some may be, and returns those that are.
func (r *run) awaitNoKeys() [][]string {
	deadline := time.Now().Add(r.Plan.LeftAfter)
	for {
		keys, left := make([][]string, len(r.nodes)), 0
		for i, n := range r.nodes {
			var err error
			if keys[i], err = lockKeys(n.DirectAddr()); err != nil {
				r.fail(fmt.Errorf("course: keys of node %d: %w", i, err))
				return keys
			}
			left += len(keys[i])
		}
		if left == 0 || time.Now().After(deadline) || !r.rest(50*time.Millisecond) {
			return keys
		}
	}
}

// own is in the name of every key that the library keeps for itself: fence counters, lines of waiters, markers.
const own = "__redlock__:"

// lockKeys are the keys of locks on a server.
func lockKeys(addr string) ([]string, error) {
	const patience = 10 * time.Second
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var keys []string
	for cursor := "0"; ; {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "COUNT", 1000))
		if err != nil {
			return nil, err
		}
		var some []string
		if _, err = redis.Scan(reply, &cursor, &some); err != nil {
			return nil, err
		}
		keys = append(keys, some...)
		if cursor == "0" {
			break
		}
	}
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return strings.Contains(k, own) }), nil
}

// tokens says whose the keys are that are left on a server, by the tokens in them.
func tokens(addr string, keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	var b strings.Builder
	for _, k := range keys {
		token, err := redis.String(conn.Do("GET", k))
		_, _ = fmt.Fprintf(&b, "%s: %s, error %v; ", k, token, err)
	}
	return b.String()
}
