package conn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file is about what a Pool of the user's may do: block forever, ignore its
// context, return nothing, or panic. None of it may cost more than this node's vote.

const (
	// MaxStuck is how many borrowings of a Source may be stuck, that is, have not ended in time and are waited for by
	// nobody: each is a goroutine in a Pool that ignores its context. Beyond it a further one is risked only every
	// StuckPause. Not never: those that are stuck may be stuck for good, and the node has to come back when the
	// network does.
	MaxStuck = 64

	// StuckPause is how long no further borrowing is risked.
	StuckPause = 30 * time.Second
)

var (
	errNoConn = errors.New("the pool returned no connection and no error")
	errStuck  = fmt.Errorf("%d calls of the pool's GetContext have not returned", MaxStuck)
	errGone   = errors.New("the pool's GetContext ended its goroutine")
)

// A Source gets connections from a Pool. It is safe for concurrent use.
type Source struct {
	pool  Pool
	fixed bool // the user has said where connections must be

	// Fresh has connections be new ones: what a *redis.Pool has kept may lead to where its address led before. They are
	// dialled past it. With each, one of its own is borrowed and closed, which has the place that the pool counts for
	// MaxActive. What another kind of pool hands out is up to it.
	Fresh atomic.Bool

	mu       sync.Mutex // the pool is called without it
	stuck    int        // calls of the pool that have not returned
	called   time.Time  // when the pool was last called
	database int        // where connections must be; if not fixed, where new ones of a *redis.Pool are, as far as is known
}

// NewSource returns a Source over a pool.
func NewSource(p Pool) *Source {
	if d, ok := p.(*DatabasePool); ok {
		return &Source{pool: d.Pool, database: d.Database, fixed: true}
	}
	return &Source{pool: p}
}

// Borrow gets a connection from the pool but does not wait longer than ctx, whatever the pool does: a plain Dial, an
// AUTH in it or a TestOnBorrow may hang. What such a call returns in the end is given back.
func (s *Source) Borrow(ctx context.Context) (*Wire, error) {
	w, err := s.borrowFrom(ctx, s.pool)
	p, ok := s.pool.(*redis.Pool)
	if err != nil || !ok || !s.Fresh.Load() {
		return w, err
	}
	w.Abort()
	fresh, err := s.borrowFrom(ctx, dialsOf(p))
	if err != nil {
		w.GiveBack()
		return nil, err
	}
	fresh.place = w
	return fresh, nil
}

// dialsOf returns a pool of new connections that are made as p makes them.
func dialsOf(p *redis.Pool) *redis.Pool { return &redis.Pool{Dial: p.Dial, DialContext: p.DialContext} }

func (s *Source) borrowFrom(ctx context.Context, pool Pool) (*Wire, error) {
	began := time.Now()
	s.mu.Lock()
	if s.stuck >= MaxStuck && began.Sub(s.called) < StuckPause {
		s.mu.Unlock()
		return nil, errStuck
	}
	s.stuck++
	s.called = began
	s.mu.Unlock()
	got := make(chan borrowing)
	go s.getConn(ctx, pool, got)
	select {
	case b := <-got:
		if b.err != nil {
			if b.conn != nil {
				giveBack(b.conn) // redigo's error connection.
			}
			return nil, b.err
		}
		return newWire(b.conn), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("no connection from the pool within %v", brief.Duration(time.Since(began)))
	}
}

// Stuck returns how many calls of the pool have not returned.
func (s *Source) Stuck() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck
}

// IsSpent reports whether all connections that a *redis.Pool may have are in use.
func (s *Source) IsSpent() bool {
	p, ok := s.pool.(*redis.Pool)
	if !ok || p.MaxActive <= 0 {
		return false
	}
	stats := p.Stats()
	return stats.ActiveCount >= p.MaxActive && stats.IdleCount == 0
}

// A borrowing is what the pool has returned.
type borrowing struct {
	conn redis.Conn
	err  error
}

// getConn calls the pool, on a goroutine of its own. What nobody waits for any more it gives back.
func (s *Source) getConn(ctx context.Context, pool Pool, got chan<- borrowing) {
	b := borrowing{err: errGone} // Unless it returns: runtime.Goexit cannot be recovered from.
	defer func() {
		s.mu.Lock()
		s.stuck--
		s.mu.Unlock()
		select {
		case got <- b:
		case <-ctx.Done():
			if b.conn != nil {
				giveBack(b.conn)
			}
		}
	}()
	b.conn, b.err = getContext(ctx, pool)
	if b.conn == nil && b.err == nil {
		b.err = errNoConn
	}
}

func getContext(ctx context.Context, p Pool) (c redis.Conn, err error) {
	defer recovered("the pool's GetContext", &err)
	if d, ok := p.(*Dialer); ok {
		return d.getLoggingIn(ctx)
	}
	return p.GetContext(ctx)
}

// A Pool hands out connections to one Redis server. It may be the user's, which may
// block forever, ignore its context, return nothing, or panic; see [Source].
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// A DatabasePool is a Pool whose connections must all be in one database.
type DatabasePool struct {
	Pool

	Database int
}

// MarshalText returns what Format prints.
func (p *DatabasePool) MarshalText() ([]byte, error) { return fmt.Append(nil, p), nil }

// Format prints the pool's type, whatever the verb: the pool itself may have passwords.
func (p *DatabasePool) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "%T in database %d", p.Pool, p.Database)
}

// CheckPool returns an error if a pool cannot be right, without asking it.
func CheckPool(p Pool) error {
	d, ok := p.(*DatabasePool)
	switch {
	case isNil(p), ok && isNil(d.Pool):
		return errors.New("nil Pool")
	case ok && d.Database < 0:
		return fmt.Errorf("database %d: must not be negative", d.Database)
	}
	return nil
}

// isNil reports whether a Pool is nil, or a nil pointer or function.
func isNil(p Pool) bool {
	v := reflect.ValueOf(p)
	return p == nil || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// recovered is deferred around a user's code that runs on a goroutine of the library, where a panic would end the
// process and nobody could recover from it. It turns the panic into an error that says where it came from.
func recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v%s", what, p, panicSite())
	}
}

// panicSite returns where the panic that is being recovered from was raised, if that can be found.
func panicSite() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for panicked := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf(" (at %s:%d)", f.File, f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// giveBack returns a connection to its pool.
func giveBack(c redis.Conn) {
	var err error
	defer recovered("Close of the pool's connection", &err)
	_ = c.Close()
}
