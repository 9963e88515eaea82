package main

import (
	"cmp"
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
	"github.com/seed6c881748/redlock/proof/judge"
)

// watchers look at the keys of all servers during a run.
type watchers struct {
	peer      peer
	resources []string

	cancel  context.CancelFunc
	running sync.WaitGroup
	seen    [][]judge.Sample // By server.
}

func (w *watchers) start(start int64, servers []string) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	if w.peer.servers > 0 {
		servers = servers[:w.peer.servers]
	}
	w.seen = make([][]judge.Sample, len(servers))
	clock := monotime.Since(start)
	for i, addr := range servers {
		w.running.Go(func() { w.seen[i] = w.watch(ctx, i, addr, clock.Now) })
	}
}

// stop returns what was seen, in the order of time and in the words of the history.
func (w *watchers) stop() []judge.Sample {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
	all := slices.Concat(w.seen...)
	slices.SortStableFunc(all, func(a, b judge.Sample) int { return cmp.Compare(a.At, b.At) })
	return all
}

// watch looks at the keys of one node until ctx ends.
func (w *watchers) watch(ctx context.Context, node int, addr string, now func() int64) []judge.Sample {
	var all []judge.Sample
	var conn redis.Conn
	const patience = time.Second
	tick := time.NewTicker(judge.SampleEvery)
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
			conn, _ = redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
		}
		if conn == nil {
			continue
		}
		for _, resource := range w.resources {
			value, err := redis.String(conn.Do("GET", w.peer.key+resource))
			if err != nil && !errors.Is(err, redis.ErrNil) {
				_ = conn.Close()
				conn = nil
				break
			}
			if w.peer.value != nil {
				value = w.peer.value(value)
			}
			all = append(all, judge.Sample{At: now(), Node: node, Resource: resource, Value: value})
		}
	}
}

// writeSamples leaves what was seen, for those who look into a run: when, on which node, which resource, what value.
func writeSamples(name string, samples []judge.Sample) error {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "%.3f %d %s %q\n", time.Duration(s.At).Seconds(), s.Node, s.Resource, s.Value)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
