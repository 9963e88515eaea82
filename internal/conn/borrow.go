package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/brief"
)

// This file guards against a user's Pool, which may block forever, ignore its context, return nothing, or panic. That
// must cost no more than this node's vote.

const (
	// MaxStuck is how many borrowings of a Source may be stuck: not ended in time, with nobody waiting. Each is a
	// goroutine in a Pool that ignores its context. Beyond MaxStuck, a further one is risked only every StuckPause. To
	// risk none would be wrong: the stuck ones may never end, and the node has to come back when the network does.
	MaxStuck = 64

	// StuckPause is how long no further borrowing is risked then.
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

	// Fresh asks for new connections: one that a *redis.Pool has kept may lead to where its address led before. They
	// are dialled past the pool. For each, one of the pool's own is borrowed and closed, and so holds a place under
	// MaxActive. Other kinds of pools decide for themselves.
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

// Borrow gets a connection from the pool. It waits no longer than ctx, whatever the pool does: a plain Dial, an AUTH in
// it or a TestOnBorrow may hang. A connection that comes too late is given back.
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

// dialsOf returns a pool that makes new connections as p does.
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

// getConn calls the pool, on a goroutine of its own. It gives back a connection for which nobody waits any longer.
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
