package conn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A redigoLink reads and writes through a redigo connection, or one that a user's pool has wrapped around it, because
// that one knows the socket, or TLS is in between. A panic of a connection that is not redigo's becomes an error: the
// methods are called on goroutines of the library.
type redigoLink struct {
	conn redis.Conn

	mu    sync.Mutex // the library takes no other one with it; Abort calls the connection
	given bool
}

func (l *redigoLink) Err() (err error) {
	defer recovered("the pool's connection", &err)
	return l.conn.Err()
}

func (l *redigoLink) Send(command string, args ...any) (err error) {
	defer recovered("the pool's connection", &err)
	return l.conn.Send(command, args...)
}

func (*redigoLink) SendEncoded([]byte) (sent bool, err error) { return false, nil }

func (l *redigoLink) Flush() (err error) {
	defer recovered("the pool's connection", &err)
	return l.conn.Flush()
}

// receive does not use redigo's Receive, as the pool's read timeout would end an idle connection, nor ReceiveContext,
// as that reads on another goroutine, where a panic could not be caught: redigo panics at a reply that announces an
// absurd length.
func (l *redigoLink) receive(timeout time.Duration) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.Abort()
			reply, err = nil, fmt.Errorf("malformed reply: %v", p)
		}
	}()
	return redis.ReceiveWithTimeout(l.conn, timeout)
}

// abortable sends the empty command, which does no I/O where nothing is queued.
func (l *redigoLink) abortable(ctx context.Context) (err error) {
	defer recovered("the pool's connection", &err)
	if _, err := redis.DoContext(l.conn, ctx, ""); err != nil {
		return fmt.Errorf("the pool's connection must implement redis.ConnWithContext: %w", err)
	}
	return nil
}

// Abort does not call Close, which would first wait for outstanding replies, on a hung server forever.
func (l *redigoLink) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.given {
		var err error
		defer recovered("the pool's connection", &err)
		_, _ = redis.ReceiveContext(l.conn, pastTime)
	}
}

func (l *redigoLink) GiveBack() {
	l.mu.Lock()
	l.given = true
	l.mu.Unlock()
	giveBack(l.conn)
}

// past is a context whose deadline has passed though it is not done yet. Only that aborts a redigo connection without
// waiting for it. If it were done, a connection that wraps redigo's and looks at Err first would not pass it on, and
// nothing would be aborted.
type past struct{ context.Context } //nolint:containedctx // It is one itself.

func (past) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

var pastTime = past{context.Background()}
