package locker

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/compat/node"
)

// Libraries are those that are written in Go, each set up as its documentation does.
var Libraries = map[string]libraries.Library{
	"redlock":         libraries.Redlock,
	"redsync/redigo":  libraries.RedsyncOn("redigo"),
	"redsync/goredis": libraries.RedsyncOn("goredis"),
	"rueidislock":     libraries.Rueidislock,
}

// Node is the command of the client in JavaScript.
func Node() ([]string, error) {
	if err := node.Install(); err != nil {
		return nil, err
	}
	return []string{"node", filepath.Join(node.Folder(), "course.js")}, nil
}

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
