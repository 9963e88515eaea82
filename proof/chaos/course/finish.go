package course

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// finish ends the work and writes down what is left.
func (r *run) finish() {
	var all sync.WaitGroup
	for _, c := range r.everybody() {
		if p := c.now.Load(); p != nil && !slices.Contains(r.guests, c) {
			all.Go(func() { r.stop(p) })
		}
	}
	for _, g := range r.guests {
		all.Go(func() { r.dismiss(g) })
	}
	all.Wait()
	for i, left := range r.awaitNoKeys() {
		left.Kind, left.Node = history.Keys, &i
		r.observer.Log(left)
	}
	for _, c := range r.everybody() {
		if p := c.now.Load(); p != nil {
			c.now.Store(nil)
			r.quit(p)
		}
	}
	if r.watched != nil {
		r.watched()
	}
	r.fail(r.observer.Drain(cmp.Or(r.Hang, hang)))
	r.observer.LogRegisters()
	r.observer.Log(history.Event{Kind: history.End})
}

// awaitNoKeys waits until no lock is left on any node, as long as some may be, and returns those that are.
func (r *run) awaitNoKeys() []history.Event {
	deadline := time.Now().Add(r.Plan.LeftAfter)
	for {
		left, sum := make([]history.Event, len(r.nodes)), 0
		for i, n := range r.nodes {
			var err error
			if left[i].Keys, err = lockKeys(n.DirectAddr()); err != nil {
				r.fail(fmt.Errorf("course: keys of node %d: %w", i, err))
				return nil
			}
			sum += len(left[i].Keys)
		}
		if sum == 0 || time.Now().After(deadline) || !r.rest(50*time.Millisecond) {
			return left
		}
	}
}

// own is in the name of every key that the library keeps for itself: fence counters, lines of waiters, markers.
const own = "__redlock__:"

// lockKeys are the keys of locks on a server.
func lockKeys(addr string) ([]string, error) {
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(hang), redis.DialReadTimeout(hang))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	keys, err := redis.Strings(conn.Do("KEYS", "*"))
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(k string) bool { return strings.Contains(k, own) }), err
}

// Samples is how many samples a run has, if it is not so short that they would be nearer than 50 ms.
const Samples = 100

// sample has all processes tell how much they use, again and again until the end of the plan, and tells of the servers.
func (r *run) sample(begin time.Duration) {
	every := max(r.Plan.Duration/Samples, 50*time.Millisecond)
	for tick := int64(1); time.Duration(tick)*every < r.Plan.Duration && r.until(begin+time.Duration(tick)*every); tick++ {
		for _, c := range r.everybody() {
			if p := c.now.Load(); p != nil {
				_ = p.Say(protocol.Command{Do: protocol.Sample, Tick: tick})
			}
		}
		r.observer.Log(history.Event{Kind: history.Sample, Value: tick, Figures: r.figures()})
	}
}

// figures are those of the servers, of all of them together. One that is down or frozen says nothing: then there are none
// but the connections, which the conductor knows.
func (r *run) figures() map[string]float64 {
	connections := 0
	for _, n := range r.nodes {
		for _, w := range n.ways {
			connections += w.Conns()
		}
	}
	figures := map[string]float64{"connections": float64(connections)}
	keys := 0.0
	for _, n := range r.nodes {
		k, err := usage(n.DirectAddr())
		if err != nil {
			return figures
		}
		keys += k
	}
	figures["server-keys"] = keys
	return figures
}

// usage is how many keys a server has.
func usage(addr string) (float64, error) {
	const within = 200 * time.Millisecond
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(within), redis.DialReadTimeout(within))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	size, err := redis.Int64(conn.Do("DBSIZE"))
	return float64(size), err
}
