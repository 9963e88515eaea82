package redlock_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

type wild struct{}

func (wild) Begin(ctx context.Context, op redlock.Op, _ []string) context.Context {
	switch rand.N(200) {
	case 0:
		panic("begin")
	case 1:
		time.Sleep(time.Duration(rand.N(3000)) * time.Microsecond)
	}
	return ctx
}
func (wild) End(_ context.Context, e redlock.Event) {
	switch rand.N(200) {
	case 0:
		panic("end")
	case 1:
		time.Sleep(time.Duration(rand.N(3000)) * time.Microsecond)
	}
}
func (wild) Wants(context.Context, redlock.EventKind) bool { return rand.N(2) == 0 }
func (wild) Event(context.Context, redlock.Event)          {}

func wildTurns(t *testing.T, c *testcluster.Cluster, n int, faults bool, tracer bool) {
	var inside [3]atomic.Pointer[redlock.Lock]
	var fenced [3]atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	names := []string{"x", "y", "z"}
	var rs []*redlock.Redlock
	for range 2 {
		opts := []redlock.Option{}
		if tracer {
			opts = append(opts, redlock.WithTracer(wild{}))
		}
		r := newRedlock(t, c, opts...)
		rs = append(rs, r)
		for range 8 {
			all.Go(func() {
				for range n {
					func() {
						done := make(chan struct{})
						go func() {
							defer close(done)
							defer func() { _ = recover() }()
							var res []string
							var idx []int
							for i, s := range names {
								if rand.N(9) == 0 {
									res = append(res, s)
									idx = append(idx, i)
								}
							}
							if res == nil {
								res, idx = names[:1], []int{0}
							}
							rand.Shuffle(len(res), func(i, j int) { res[i], res[j] = res[j], res[i]; idx[i], idx[j] = idx[j], idx[i] })
							o := []redlock.Option{redlock.WithRetryCount(-1), redlock.WithTurn(time.Duration(10+rand.N(20000)) * time.Microsecond)}
							if rand.N(8) == 0 {
								o = o[:1]
							}
							if rand.N(20) > 0 {
								o = append(o, redlock.WithFencing())
							}
							if rand.N(8) == 0 {
								o = append(o, redlock.WithMaxHold(time.Millisecond))
							}
							if rand.N(8) == 0 {
								o = append(o, redlock.WithStopTime(100*time.Millisecond))
							}
							if rand.N(8) == 0 {
								o = append(o, redlock.WithRetryDelay(time.Duration(1+rand.N(20))*time.Millisecond), redlock.WithRetryJitter(0))
							}
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.N(60))*time.Millisecond)
							defer cancel()
							if rand.N(3) == 0 {
								ctx = t.Context()
							}
							work := func(l *redlock.Lock) {
								if l.Err() == nil {
									if f := l.Fence(); f > 0 {
										for _, i := range idx {
											if old := fenced[i].Swap(f); old >= f && !faults {
												t.Errorf("fence %d after %d", f, old)
											}
										}
									}
									for _, i := range idx {
										if was := inside[i].Swap(l); was != nil && was.Err() == nil && l.Err() == nil && !faults {
											t.Errorf("two at a time: %v %v", was, l)
										}
									}
								}
								switch rand.N(8) {
								case 0:
									go func() { defer func() { _ = recover() }(); _ = l.Extend(context.Background(), time.Second) }()
								case 1:
									l.KeepAlive(ctx)
								case 2:
									_ = l.Extend(context.Background(), time.Second)
								case 3:
									l.Wanted()
								case 4:
									time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond)
								}
							}
							if rand.N(2) == 0 {
								l, err := r.Lock(ctx, res, time.Second, o...)
								if err != nil {
									return
								}
								work(l)
								if rand.N(3) == 0 {
									go func() { defer func() { _ = recover() }(); _ = l.Unlock(context.Background()) }()
								}
								for range 3 { // A tracer may panic.
									func() {
										defer func() { _ = recover() }()
										_ = l.Unlock(context.Background())
									}()
								}
								if l.Err() == nil {
									t.Error("held after Unlock")
								}
								return
							}
							_ = r.Do(ctx, res, time.Second, func(ctx context.Context, l *redlock.Lock) error {
								work(l)
								switch rand.N(10) {
								case 0:
									panic("work")
								case 1:
									runtime.Goexit()
								case 2:
									_ = l.Unlock(ctx)
								case 3:
									l2, ok := redlock.FromContext(ctx)
									if !ok || l2 != l {
										t.Error("FromContext")
									}
									if l.Err() == nil {
										_, err := r.Lock(ctx, res, time.Second, o...)
										if err == nil {
											t.Error("got what its own has")
										}
									}
								}
								return nil
							}, o...)
						}()
						<-done
					}()
				}
			})
		}
	}
	if faults {
		go func() {
			for !stop.Load() {
				time.Sleep(time.Duration(1+rand.N(20)) * time.Millisecond)
				nd := c.Nodes[rand.N(len(c.Nodes))]
				switch rand.N(3) {
				case 0:
					do(t, nd, "FLUSHALL")
				case 1:
					do(t, nd, "DEL", "x")
				case 2:
					do(t, nd, "SET", "y", "thief", "PX", "5")
				}
			}
		}()
	}
	all.Wait()
	stop.Store(true)
	time.Sleep(3 * time.Second)
	for _, r := range rs {
		s := r.Stats()
		assert.Zero(t, s.Waiting)
		assert.Zero(t, s.Held)
		assert.Zero(t, s.Kept)
		assert.Empty(t, r.WaitingCalls())
		t.Logf("acquired %d passed %d unlocked %d", s.Acquired, s.Passed, s.Unlocked)
		require.NoError(t, r.Close(context.Background()))
	}
	requireNoKeys(t, c)
}

func TestWildTurns(t *testing.T) {
	for _, f := range []bool{false, true} {
		for _, tr := range []bool{false, true} {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) { slowDown(t, c); wildTurns(t, c, 150, f, tr) })
		}
	}
}
