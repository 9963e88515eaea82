package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/chaos/monotime"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// watchers look at the keys of all servers during a run.
type watchers struct {
	peer      peer
	resources []string

	cancel  context.CancelFunc
	running sync.WaitGroup
	seen    [][]sample // By server.
}

func (w *watchers) start(start int64, servers []string) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	if w.peer.servers > 0 {
		servers = servers[:w.peer.servers]
	}
	keys := make(map[string]string)
	for _, r := range w.resources {
		keys[r] = r
		if name := locker.KeyOf[w.peer.name]; name != nil {
			keys[r] = name(r)
		}
	}
	w.seen = make([][]sample, len(servers))
	clock := monotime.Since(start)
	for i, addr := range servers {
		w.running.Go(func() { w.seen[i] = watch(ctx, i, addr, keys, clock.Now) })
	}
}

// stop returns what was seen, in the order of time and in the words of the history.
func (w *watchers) stop() []sample {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
	all := slices.Concat(w.seen...)
	slices.SortStableFunc(all, func(a, b sample) int { return int(a.at - b.at) })
	if value := locker.ValueOf[w.peer.name]; value != nil {
		for i, s := range all {
			all[i].value = value(s.value)
		}
	}
	return all
}

// watch looks at the keys of one node until ctx ends.
func watch(ctx context.Context, node int, addr string, keys map[string]string, now func() int64) []sample {
	var all []sample
	var conn redis.Conn
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
			return all
		case <-tick.C:
		}
		if conn == nil {
			conn, _ = redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(tidied), redis.DialReadTimeout(tidied))
		}
		if conn == nil {
			continue
		}
		for resource, key := range keys {
			value, err := redis.String(conn.Do("GET", key))
			if err != nil && !errors.Is(err, redis.ErrNil) {
				_ = conn.Close()
				conn = nil
				break
			}
			all = append(all, sample{now(), node, resource, value})
		}
	}
}

// writeSamples leaves what was seen, for those who look into a run: when, on which node, which resource, what value.
func writeSamples(name string, samples []sample) error {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "%.3f %d %s %q\n", time.Duration(s.at).Seconds(), s.node, s.resource, s.value)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
