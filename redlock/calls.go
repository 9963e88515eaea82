package redlock

import "sync"

// calls counts the calls and the holds of a Redlock, so that Close can wait for them.
type calls struct {
	closing chan struct{} // closed by Close: waits and attempts end
	quiet   chan struct{} // closed when none is running after Close

	mu      sync.Mutex
	closed  bool
	running int
}

func newCalls() *calls { return &calls{closing: make(chan struct{}), quiet: make(chan struct{})} }

// enter counts a call until exit; after close it returns ErrClosed.
func (c *calls) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.running++
	return nil
}

func (c *calls) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.closed && c.running == 0 {
		close(c.quiet)
	}
}

// close lets no further call in; false if that had been done before.
func (c *calls) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	close(c.closing)
	if c.running == 0 {
		close(c.quiet)
	}
	return true
}
