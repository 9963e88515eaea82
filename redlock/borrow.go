package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file is about what a Pool of the user's may do: block for ever, ignore its
// context, return nothing, or panic. None of it may cost more than this node's vote.

const (
	// maxStuck is how many borrowings may be stuck, that is, have not ended in time
	// and are waited for by nobody: each is a goroutine in a Pool that ignores
	// its context. Beyond it a further one is risked only every stuckPause. Not
	// never: those that are stuck may be stuck for good, and the node has to
	// come back when the network does.
	maxStuck   = 64
	stuckPause = 30 * time.Second
)

var (
	errNoConn = errors.New("the pool returned no connection and no error")
	errStuck  = fmt.Errorf("%d calls of the pool's GetContext have not returned", maxStuck)
	errGone   = errors.New("the pool's GetContext ended its goroutine")
)

// borrow gets a connection from the pool but does not wait longer than ctx,
// whatever the pool does: a plain Dial, an AUTH in it or a TestOnBorrow may
// hang. What such a call returns in the end is given back.
func (n *node) borrow(ctx context.Context) (redis.Conn, error) { return n.borrowFrom(ctx, n.pool) }

func (n *node) borrowFrom(ctx context.Context, pool Pool) (redis.Conn, error) {
	n.mu.Lock()
	if n.stuck >= maxStuck && time.Since(n.borrowed) < stuckPause {
		n.mu.Unlock()
		return nil, errStuck
	}
	n.stuck++
	n.borrowed = time.Now()
	n.mu.Unlock()
	got := make(chan borrowing)
	began := time.Now()
	go n.getConn(ctx, pool, got)
	select {
	case b := <-got:
		if b.err != nil && b.conn != nil {
			giveBack(b.conn) // redigo's error connection.
		}
		return b.conn, b.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no connection from the pool within %v", brief(time.Since(began)))
	}
}

// A borrowing is what the pool has returned.
type borrowing struct {
	conn redis.Conn
	err  error
}

// getConn calls the pool, on a goroutine of its own. What nobody waits for any more it
// gives back.
func (n *node) getConn(ctx context.Context, pool Pool, got chan<- borrowing) {
	b := borrowing{err: errGone} // Unless it returns: runtime.Goexit cannot be recovered from.
	defer func() {
		n.mu.Lock()
		n.stuck--
		n.mu.Unlock()
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

func getContext(ctx context.Context, p Pool) (conn redis.Conn, err error) {
	defer recovered("the pool's GetContext", &err)
	return p.GetContext(ctx)
}

// giveBack returns a connection to its pool.
func giveBack(conn redis.Conn) {
	var err error
	defer recovered("Close of the pool's connection", &err)
	_ = conn.Close()
}

// doubt notes that what the pool handed out does not let go of the node, so that no call
// waits for the next connection.
func (n *node) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nodeConnecting {
		n.failed = true
		n.watcher.changed()
	}
}

// recovered is deferred around code of the user's that runs on a goroutine of the
// library, where a panic would end the process and nobody could recover from it. It
// makes the panic an error that says where it came from.
func recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v%s", what, p, panicSite())
	}
}

// panicSite is where the panic came from that is being recovered from, if that can
// be told.
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

// abortable returns an error if a connection behind the pool's cannot be aborted,
// which it must. The empty command that shows it does no I/O.
func abortable(ctx context.Context, conn *wire) (err error) {
	defer recovered("the pool's connection", &err)
	if conn.own {
		return nil // With a login queued, it would be I/O.
	}
	if _, err := redis.DoContext(conn.Conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
	}
	return nil
}
