package locker

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/proof/chaos/client"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// How the clients of all libraries work, in compat/node/course.js as well.
const (
	// Patience is how long a call may wait for others; what is not over then is given up.
	Patience = 3 * time.Second

	slow      = time.Second           // What a call may take that was not told to wait.
	shortWork = 40 * time.Millisecond // The longest of the short sections.
	look      = 2 * time.Millisecond  // How long a section does not look at its lock.
	pause     = 60 * time.Millisecond // The longest pause between two locks of a worker.
	longShare = 24                    // One section in so many takes up to three ttls, and is extended.
	waitShare = 2                     // One call in so many waits; the others try once.
)

// A worker locks, works and releases.
type worker struct {
	*client.Recorder
	libraries.Waiter

	cfg   protocol.Config
	calls *atomic.Int64 // Of all workers of the process.
	lot   *rand.Rand

	id       int // The call that acquired the lock.
	resource string
}

// work goes on until ctx ends. What is under way then is finished.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.id, w.resource = 0, w.cfg.Resources[w.lot.IntN(len(w.cfg.Resources))]
		length := time.Duration(w.lot.Int64N(int64(shortWork)))
		long := w.lot.IntN(longShare) == 0
		if long {
			length = time.Duration(w.cfg.TTL + w.lot.Int64N(2*w.cfg.TTL))
		}
		if w.acquire(ctx, w.lot.IntN(waitShare) == 0) == nil {
			w.section(ctx, length, long)
			w.about(ctx, history.Event{Op: history.OpUnlock, Until: w.until()}, w.Unlock)
		}
		time.Sleep(time.Duration(w.lot.Int64N(int64(pause))))
	}
}

func (w *worker) acquire(ctx context.Context, wait bool) (err error) {
	values := &drawn{}
	ctx = context.WithValue(context.WithoutCancel(ctx), drawnKey{}, values)
	e, limit := history.Event{Op: history.OpTryLock, TTL: w.cfg.TTL}, time.Duration(0)
	do := func() error { return w.Try(ctx, w.resource) }
	if wait {
		e.Op, limit = history.OpLock, Patience
		do = func() error { return w.Lock(ctx, w.resource, Patience) }
	}
	w.id, err = w.call(e, limit, values, do)
	return err
}

// section reads the register, works, and writes it, unless the library has said by then that the lock is over.
func (w *worker) section(ctx context.Context, length time.Duration, long bool) {
	w.Log(w.event(history.Enter))
	defer func() { w.Log(w.event(history.Leave)) }()
	if keeper, ok := w.Waiter.(libraries.Keeper); ok && long {
		keeper.Keep()
	}
	if read := w.Ask(w.event(history.Read)); read.OK && w.last(ctx, length) {
		write := w.event(history.Write)
		write.Value = read.Value + 1
		w.Ask(write)
	}
}

// last works for as long as it is told, and returns whether the lock is held to the end. A lock that its library does
// not keep is extended after half of its time. The work waits for that, as a program without a second thread would.
func (w *worker) last(ctx context.Context, length time.Duration) bool {
	_, keeps := w.Waiter.(libraries.Keeper)
	extender, extends := w.Waiter.(libraries.Extender)
	half := func() time.Time { return time.Now().Add(time.Until(w.Until()) / 2) }
	end, again := time.Now().Add(length), half()
	for w.valid() {
		if time.Now().After(end) || ctx.Err() != nil {
			return true
		}
		if extends && !keeps && time.Now().After(again) {
			w.about(ctx, history.Event{Op: history.OpExtend, TTL: w.cfg.TTL}, extender.Extend)
			again = half()
		}
		time.Sleep(look)
	}
	return false
}

// valid is what a careful user asks before a write.
func (w *worker) valid() bool {
	select {
	case <-w.Lost():
		w.Log(w.event(history.Lost))
		return false
	default:
		return w.Until().IsZero() || time.Now().Before(w.Until())
	}
}

// about makes a call about the lock, which is given up after Patience.
func (w *worker) about(ctx context.Context, e history.Event, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	_, _ = w.call(e, 0, &drawn{}, func() error { return do(ctx) })
}

// call tells of a call before and after it, and returns its number. It was told to wait as long as limit.
func (w *worker) call(e history.Event, limit time.Duration, values *drawn, do func() error) (id int, err error) {
	e.Kind, e.Lock, e.Resources = history.Call, w.id, []string{w.resource}
	e.At, e.Call = w.Clock.Now(), int(w.calls.Add(1))
	e.Bound = e.At + int64(limit+slow)
	w.Log(e)
	err = do()
	end := w.event(history.Return)
	end.Op, end.Call, end.OK, end.Token = e.Op, e.Call, err == nil, values.String()
	switch {
	case err != nil:
		end.Err = err.Error()
	case e.Op != history.OpUnlock:
		end.Until = w.until()
	}
	w.Log(end)
	return e.Call, err
}

// event is one about the lock.
func (w *worker) event(kind history.Kind) history.Event {
	return history.Event{Kind: kind, Lock: w.id, Resources: []string{w.resource}}
}

// until is the end of the lock's validity as a time of the run, 0 if there is none.
func (w *worker) until() int64 {
	if w.Until().IsZero() {
		return 0
	}
	return w.Clock.Of(w.Until())
}

// drawn are the values that a call has tried to write, each once.
type drawn struct {
	mu     sync.Mutex
	values []string
}

type drawnKey struct{}

// drew is told each value that a call has drawn.
func drew(ctx context.Context, value string) {
	if d, ok := ctx.Value(drawnKey{}).(*drawn); ok && value != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !slices.Contains(d.values, value) {
			d.values = append(d.values, value)
		}
	}
}

func (d *drawn) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.values, ",")
}
