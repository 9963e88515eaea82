// Command fleet is a client in a fleet of two versions. The tests beside it build it with the library as it is and with
// an older one, so this file uses only what both have. It does what it reads, one request a line, and answers each with
// a line, at its end.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A request says what the client is to do.
type request struct {
	ID       int
	Op       string // lock, unlock (what ID has locked), extend (the same), work
	Resource string
	TTL      time.Duration
	Once     bool          // of lock: it does not wait
	Callers  int           // of work: so many lock and release the resource
	For      time.Duration // of work: for so long
	Turn     bool          // of work: with turns, where the version has them
}

// An answer says how a request has ended.
type answer struct {
	ID    int
	Err   string
	At    time.Time // when the call returned
	Says  []string  // what the client has complained of so far
	Spans []span    // one of a lock, those of work
}

// A span is a time in which a client had a lock, by its own clock.
type span struct {
	From, To time.Time
	Fence    int64
}

// withTurn is set by versions that have turns.
var withTurn func(d time.Duration) redlock.Option

func main() {
	log.SetFlags(0)
	var c client
	opts := []redlock.Option{
		redlock.WithFencing(), redlock.WithOwner(os.Getenv("FLEET_OWNER")),
		redlock.WithRetryDelay(time.Minute), redlock.WithHook(c.hear),
	}
	if d, err := time.ParseDuration(os.Getenv("FLEET_QUARANTINE")); err == nil {
		opts = append(opts, redlock.WithQuarantine(d))
	}
	var nodes []redlock.Node
	for _, addr := range strings.Fields(os.Getenv("FLEET_NODES")) {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, opts...)
	if err != nil {
		log.Fatal(err)
	}
	c.r, c.locks, c.out = r, map[int]*redlock.Lock{}, json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var q request
		if err = json.Unmarshal(in.Bytes(), &q); err != nil {
			log.Fatal(err)
		}
		go c.do(q)
	}
	if err = r.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type client struct {
	r *redlock.Redlock

	mu    sync.Mutex
	locks map[int]*redlock.Lock
	says  []string
	out   *json.Encoder
}

// hear notes what no client of a sound fleet says. The kinds are written out, as the older version lacks one.
func (c *client) hear(_ context.Context, e redlock.Event) {
	if e.Kind == "sets differ" || e.Kind == "keys vanished" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.says = append(c.says, string(e.Kind)+" "+e.Node)
	}
}

func (c *client) do(q request) {
	ctx, a := context.Background(), answer{ID: q.ID}
	c.mu.Lock()
	lock := c.locks[q.ID]
	c.mu.Unlock()
	var err error
	switch q.Op {
	case "lock":
		retries := -1
		if q.Once {
			retries = 0
		}
		lock, err = c.r.Lock(ctx, []string{q.Resource}, q.TTL, redlock.WithRetryCount(retries))
		if err == nil {
			a.Spans = []span{{From: time.Now(), To: lock.Until(), Fence: lock.Fence()}}
		}
	case "extend":
		err = lock.Extend(ctx, q.TTL)
	case "unlock":
		err = lock.Unlock(ctx)
	case "work":
		a.Spans, err = c.work(ctx, q)
	default:
		log.Fatalf("no such request: %q", q.Op)
	}
	if a.At = time.Now(); err != nil {
		a.Err = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locks[q.ID], a.Says = lock, c.says
	if err = c.out.Encode(a); err != nil {
		log.Fatal(err)
	}
}

// work has some callers lock and release a resource as fast as they can.
func (c *client) work(ctx context.Context, q request) (spans []span, err error) {
	opts := []redlock.Option{redlock.WithRetryCount(-1)}
	if q.Turn && withTurn != nil {
		opts = append(opts, withTurn(10*time.Millisecond))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for end := time.Now().Add(q.For); q.Callers > 0; q.Callers-- {
		wg.Go(func() {
			for time.Now().Before(end) {
				lock, lockErr := c.r.Lock(ctx, []string{q.Resource}, q.TTL, opts...)
				if lockErr != nil {
					mu.Lock()
					err = lockErr
					mu.Unlock()
					return
				}
				s := span{From: time.Now(), Fence: lock.Fence()}
				time.Sleep(time.Millisecond)
				s.To = time.Now()
				lockErr = lock.Unlock(ctx)
				mu.Lock()
				if err == nil {
					err = lockErr
				}
				spans = append(spans, s)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return spans, err
}
