package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/child"
	"github.com/seed6c881748/redlock/test/tables"
)

// handon measures the time from the call of Unlock in this process to the return
// of Lock in another one, the only one that waits. It is compared with two round
// trips that are measured in turn with it, after the same pause: a PING to one
// node, and a TryLock, which is one round trip to all of them.
func handon(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	other, err := startChild(order{Role: "hand", Addrs: cluster.Addrs(), Resources: []string{"handed"}, TTL: s.ttl})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	r, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	conn, err := redis.Dial("tcp", cluster.Addrs()[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	measures := []func() (time.Duration, error){
		func() (time.Duration, error) { return handOne(r, s.ttl, other) },
		func() (time.Duration, error) { return tryOne(r, s.ttl) },
		func() (time.Duration, error) {
			start := time.Now()
			_, err := conn.Do("PING")
			return time.Since(start), err
		},
	}
	times := make([][]time.Duration, len(measures))
	for range s.blocks * s.blockSize / 2 {
		for i, measure := range measures {
			d, err := measure()
			if err != nil {
				return err
			}
			times[i] = append(times[i], d)
			time.Sleep(handPause)
		}
	}
	return out.table(handonTable(times))
}

// handonTable compares the hand-overs, which are the first times, with the round trips.
func handonTable(times [][]time.Duration) *tables.Table {
	t := tables.New("From the call of Unlock to the return of Lock in another process, the only one that waits; "+
		"every measurement after a pause of "+handPause.String(),
		"", "p50 µs", "p99 µs", "hand-over p50 / this p50", "hand-over p99 / this p50")
	for _, ts := range times {
		slices.Sort(ts)
	}
	p50, p99 := float64(percentile(times[0], 50)), float64(percentile(times[0], 99))
	for i, name := range []string{"hand-over", "TryLock", "PING of one node"} {
		own := percentile(times[i], 50)
		t.Add(name, fmt.Sprint(own.Microseconds()), fmt.Sprint(percentile(times[i], 99).Microseconds()),
			ratio(p50, float64(own)), ratio(p99, float64(own)))
	}
	return t
}

// handPause is the time before every measurement: the other process waits by then.
const handPause = 5 * time.Millisecond

// tryOne measures a lock that nobody else wants.
func tryOne(r *redlock.Redlock, ttl time.Duration) (time.Duration, error) {
	start := time.Now()
	l, err := r.TryLock(context.Background(), []string{"free"}, ttl)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	return took, l.Unlock(context.Background())
}

func handOne(r *redlock.Redlock, ttl time.Duration, other *child.Process) (time.Duration, error) {
	l, err := r.Lock(context.Background(), []string{"handed"}, ttl)
	if err != nil {
		return 0, err
	}
	if err = other.Say("lock"); err != nil {
		return 0, err
	}
	time.Sleep(handPause)
	called := time.Now()
	if err = l.Unlock(context.Background()); err != nil {
		return 0, err
	}
	line, err := other.Line()
	if err != nil {
		return 0, err
	}
	returned, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(returned - called.UnixNano()), err
}

// handOn is the other process.
func handOn(o order, lines *bufio.Scanner, out io.Writer) error {
	r, err := libraries.OpenRedlock(o.Addrs)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	for lines.Scan() {
		l, err := r.Lock(context.Background(), o.Resources, o.TTL)
		returned := time.Now()
		if err != nil {
			return err
		}
		if err := l.Unlock(context.Background()); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, returned.UnixNano()); err != nil {
			return err
		}
	}
	return nil
}
