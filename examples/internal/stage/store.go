package stage

import (
	"context"
	"sync"
	"time"
)

// A Store stands in for a database that is read and written in separate steps.
// Like one, it is safe for concurrent use and still loses updates: what it returns
// has been on its way for a while, and may be old when it arrives.
type Store[V any] struct {
	delay time.Duration

	mu     sync.Mutex
	values map[string]V
}

// NewStore returns a store whose answers are on their way for this long.
func NewStore[V any](delay time.Duration) *Store[V] {
	return &Store[V]{delay: delay, values: make(map[string]V)}
}

// Get returns what was stored under key when the question arrived, or else a zero.
func (s *Store[V]) Get(ctx context.Context, key string) (V, error) {
	s.mu.Lock()
	v := s.values[key]
	s.mu.Unlock()
	return v, Sleep(ctx, s.delay)
}

// Set stores v under key. Like the drivers of most databases, it does nothing if ctx
// has ended.
func (s *Store[V]) Set(ctx context.Context, key string, v V) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = v
	return nil
}
