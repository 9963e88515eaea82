package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// own is what the client knows of itself.
type own struct {
	Locks      int64   `json:"locks"`
	Resident   float64 `json:"resident"` // MB, 0 where the system does not tell.
	Heap       float64 `json:"heap"`     // MB that are in use after a collection.
	Goroutines float64 `json:"goroutines"`
}

const ttl = 2 * time.Second

// serve is the client's process: the first line has the nodes' addresses; each further one asks for a sample, which is
// one line of JSON. It ends with its input.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no addresses")
	}
	var nodes []redlock.Node
	for addr := range strings.FieldsSeq(lines.Text()) {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err := redlock.New(nodes, redlock.WithPrefix("soak:"), redlock.WithFenceLife(time.Minute))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := load{r: r}
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() { l.work(ctx) })
	}
	for lines.Scan() {
		if err = json.NewEncoder(out).Encode(l.own()); err != nil {
			break
		}
	}
	cancel()
	workers.Wait()
	return errors.Join(err, lines.Err(), r.Close(context.Background()))
}

// load is what a service does with a Redlock, all of it at once.
type load struct {
	r     *redlock.Redlock
	locks atomic.Int64
	names atomic.Int64
}

func (l *load) own() own {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const mega = 1 << 20
	return own{
		Locks: l.locks.Load(), Resident: resident() / mega, Heap: float64(m.HeapAlloc) / mega,
		Goroutines: float64(runtime.NumGoroutine()),
	}
}

// resident returns the bytes of memory that the process has, where /proc tells.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize())
}

// work makes calls until ctx ends. Failures are expected: the nodes fail.
func (l *load) work(ctx context.Context) {
	for ctx.Err() == nil {
		switch rand.IntN(8) {
		case 0: // A name that is never used again, as most are.
			l.hold(ctx, []string{"order-" + strconv.FormatInt(l.names.Add(1), 10)}, 0)
		case 1: // Kept alive beyond its ttl.
			_ = l.r.Do(ctx, []string{"kept-" + l.shared()}, ttl, func(held context.Context, _ *redlock.Lock) error {
				l.locks.Add(1)
				rest(held, ttl*5/4)
				return nil
			})
		case 2: // Given up, at any moment.
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(5*time.Millisecond))))
			l.hold(short, []string{l.shared()}, 0)
			cancel()
		case 3: // Left to expire.
			if _, err := l.r.TryLock(ctx, []string{"left-" + l.shared()}, ttl); err == nil {
				l.locks.Add(1)
			}
		case 4: // Released by its token.
			if lock, err := l.r.TryLock(ctx, []string{l.shared()}, ttl); err == nil {
				l.locks.Add(1)
				_ = l.r.Release(ctx, lock.Resources(), lock.Token())
			}
		case 5:
			l.hold(ctx, []string{l.shared(), l.shared() + "-b"}, time.Millisecond, redlock.WithFencing())
		default: // Waiters in line.
			l.hold(ctx, []string{l.shared()}, time.Millisecond)
		}
		rest(ctx, time.Duration(rand.Int64N(int64(20*time.Millisecond))))
	}
}

// shared is one of few names that all want.
func (l *load) shared() string { return fmt.Sprint("shared-", rand.IntN(10)) }

func (l *load) hold(ctx context.Context, resources []string, d time.Duration, opts ...redlock.Option) {
	lock, err := l.r.Lock(ctx, resources, ttl, opts...)
	if err != nil {
		return
	}
	l.locks.Add(1)
	rest(ctx, d)
	_ = lock.Unlock(context.WithoutCancel(ctx))
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
