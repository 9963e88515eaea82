// Package calls counts running calls, so that a Close can end them and wait for them.
package calls

import (
	"context"
	"sync"
	"time"
)

// A Group is the calls and holds of a Redlock. It is safe for concurrent use. Only [New] makes one.
type Group struct {
	// Closing is closed by Close: waits and attempts end.
	Closing chan struct{}

	// Quiet is closed after Close, when nothing runs any more.
	Quiet chan struct{}

	end     error
	mu      sync.Mutex // calls nothing
	closed  bool
	running int
}

// New returns a group without calls. After Close, Enter returns end.
func New(end error) *Group {
	return &Group{Closing: make(chan struct{}), Quiet: make(chan struct{}), end: end}
}

// Enter counts a call until Exit. After Close it does not, and returns an error.
func (g *Group) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.end
	}
	g.running++
	return nil
}

// Exit ends a call that has entered.
func (g *Group) Exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.closed && g.running == 0 {
		close(g.Quiet)
	}
}

// Close lets no further call in. It returns false if it was called before.
func (g *Group) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.closed = true
	close(g.Closing)
	if g.running == 0 {
		close(g.Quiet)
	}
	return true
}

// IsClosing reports whether Close was called.
func (g *Group) IsClosing() bool {
	select {
	case <-g.Closing:
		return true
	default:
		return false
	}
}

// Ended returns the error of a closed group, or else that of ctx, nil if neither has ended.
func (g *Group) Ended(ctx context.Context) error {
	select {
	case <-g.Closing:
		return g.end
	default:
		return ctx.Err()
	}
}

// Sleep waits for d. It returns an error when ctx or the group ended first.
func (g *Group) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.Closing:
		return g.end
	}
}
