package locker

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/tokens"
)

// A Library is one that runs on the course: it connects to nodes.
type Library interface {
	// Try makes one attempt, and Lock waits for as long as wait at most.
	// They tell tokens of ctx what they write to the nodes.
	Try(ctx context.Context, resource string) (Held, error)
	Lock(ctx context.Context, resource string, wait time.Duration) (Held, error)
}

// Held is a lock in the words of its library. What a library does not have is zero or nil.
type Held interface {
	Until() time.Time      // The end of its validity, as the library computes it.
	Lost() <-chan struct{} // Closed when the library says that the lock is lost.
	Keep(d time.Duration)  // The work may take longer than the ttl: extend by itself from now on.
	Unlock(ctx context.Context) error
}

// An extender is a lock that its user extends: the library does not do it by itself.
type extender interface {
	Extend(ctx context.Context) error
}

// Libraries open the libraries that are written in Go, as their documentation does.
var Libraries = map[string]func(addrs []string, ttl time.Duration) (Library, error){
	"redlock":         openRedlock,
	"redsync/redigo":  openRedsyncRedigo,
	"redsync/goredis": openRedsyncGoredis,
	"rueidislock":     openRueidislock,
}

// What the key of a resource is called, and what a history calls its value: as the library does, if there is nothing.
var (
	KeyOf = map[string]func(resource string) string{
		"rueidislock": func(resource string) string { return "rueidislock:0:" + resource },
	}
	ValueOf = map[string]func(value string) string{
		"redlock":     tokens.LabelOf,
		"rueidislock": func(value string) string { return hex.EncodeToString([]byte(value)) },
	}
)

// drawn are the values that a call has tried to write.
type drawn struct {
	mu     sync.Mutex
	values []string
}

type drawnKey struct{}

// drawing returns a context for a call, and where its values will be.
func drawing(ctx context.Context) (context.Context, *drawn) {
	d := &drawn{}
	return context.WithValue(ctx, drawnKey{}, d), d
}

// drew says that a call has drawn a value.
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
