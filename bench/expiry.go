package main

import (
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

// expiry measures how long after the expiry of a quorum of its keys the next waiter
// has the lock of a holder that was killed.
func expiry(s settings, out *section, cluster *testcluster.Cluster) (err error) {
	ttl := s.ttl / 4
	rounds := 2 * s.rounds
	r, err := libraries.OpenRedlock(cluster.Addrs())
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	var late []time.Duration
	for i := range rounds {
		key := "killed" + strconv.Itoa(i)
		holder, err := startHolder(order{Role: "hold", Addrs: cluster.Addrs(), Resources: []string{key}, TTL: ttl})
		if err != nil {
			return err
		}
		time.AfterFunc(ttl/2, holder.Kill)
		ends, err := quorumEnd(cluster.Addrs(), key)
		if err != nil {
			return err
		}
		l, err := r.Lock(context.Background(), []string{key}, ttl, redlock.WithRetryCount(-1))
		late = append(late, time.Since(ends))
		_ = holder.Wait() // It was killed.
		if err != nil {
			return err
		}
		if err = l.Unlock(context.Background()); err != nil {
			return err
		}
	}
	slices.Sort(late)
	t := tables.New(fmt.Sprintf("A holder killed with SIGKILL: from the expiry of a quorum of its keys (ttl %v) to the return of Lock", ttl),
		"rounds", "p50 ms", "longest ms")
	t.Add(fmt.Sprint(rounds), millis(percentile(late, 50)), millis(late[len(late)-1]))
	return out.table(t)
}

// startHolder starts a process that takes a lock, and returns when it has it.
func startHolder(o order) (*child.Process, error) {
	p, err := startChild(o)
	if err != nil {
		return nil, err
	}
	if line, _ := p.Line(); line != "held" {
		p.Kill()
		return nil, errors.New("the child process has no lock")
	}
	return p, nil
}

// hold is the other process: it takes a lock and waits to be killed.
func hold(o order, out io.Writer) error {
	r, err := libraries.OpenRedlock(o.Addrs)
	if err != nil {
		return err
	}
	if _, err = r.TryLock(context.Background(), o.Resources, o.TTL); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "held")
	time.Sleep(2 * o.TTL)
	return errors.Join(err, r.Close(context.Background()))
}

// quorumEnd is when so many of the key's copies have expired that another client
// may have a quorum.
func quorumEnd(addrs []string, key string) (time.Time, error) {
	ends := make([]time.Time, len(addrs))
	for i, addr := range addrs {
		conn, err := redis.Dial("tcp", addr)
		if err != nil {
			return time.Time{}, err
		}
		left, err := redis.Int64(conn.Do("PTTL", key))
		ends[i] = time.Now().Add(time.Duration(left) * time.Millisecond)
		if err = errors.Join(err, conn.Close()); err != nil {
			return time.Time{}, err
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[len(ends)/2], nil
}
