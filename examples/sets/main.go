// Sets spreads resources over several sets of nodes, each with its own Redlock, for more
// locks than one set carries. One set dies, and another one is added:
//
//	go run ./examples/sets
//
// sets.go is to copy. README.md says when which way of moving is right.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	ttl       = 2 * time.Second
	resources = 30
)

func main() { stage.Main(tell) }

func resource(i int) string { return fmt.Sprintf("order:%d", i) }

func nothing(context.Context, *redlock.Lock) error { return nil }

// named returns n sets without a Redlock.
func named(n int) (sets Sets) {
	for i := range n {
		sets = append(sets, Set{Name: "set-" + string(rune('a'+i))})
	}
	return sets
}

// open returns n stages, one for each set of nodes; the first one is s.
func open(s *stage.Stage, n int) []*stage.Stage {
	stages := []*stage.Stage{s}
	for len(stages) < n {
		stages = append(stages, s.Another())
	}
	return stages
}

// connect returns what one process has: a Redlock for each set.
func connect(stages []*stage.Stage, opts ...redlock.Option) Sets {
	sets := named(len(stages))
	for i, s := range stages {
		sets[i].Redlock = s.Client(opts...)
	}
	return sets
}

func tell(ctx context.Context, s *stage.Stage) {
	stages := open(s, 4) //nolint:contextcheck // In-memory servers start at once and take no context.
	four := connect(stages)
	three := four[:3]
	stages[1].Kill(len(s.Nodes))
	s.Say("Three sets of nodes have %d resources. All nodes of set-b die.", resources)
	locked, refused := lockAll(ctx, three)
	s.Say("  locked in the other sets: %d", locked)
	s.Say("  ErrNoQuorum: %s", strings.Join(refused, ", "))
	for _, res := range refused {
		stage.Check(three.At(res).Name == "set-b", "%q belongs to %s", res, three.At(res).Name)
	}
	stages[1].Revive(len(s.Nodes))
	s.Say("They are back.")
	addASet(ctx, s, Move{From: three, To: four})
}

// addASet drains what moves to a fourth set.
func addASet(ctx context.Context, s *stage.Stage, m Move) {
	var moving []string
	for i := range resources {
		res := resource(i)
		err := m.DoStill(ctx, res, ttl, nothing, redlock.WithRetryCount(-1))
		if errors.Is(err, errMoving) {
			moving = append(moving, res)
			continue
		}
		stage.Must(err)
	}
	s.Say("set-d is added. These resources move to it: %s", strings.Join(moving, ", "))
	for _, res := range moving {
		stage.Must(m.Drain(ctx, res, ttl))
	}
	s.Say("Nobody holds them any more, and their fences go on in set-d. Now processes may lock there.")
	for i := range resources {
		stage.Must(m.To.At(resource(i)).Do(ctx, []string{resource(i)}, ttl, nothing))
	}
}

// lockAll locks all resources for a moment, and says for which there was no quorum.
func lockAll(ctx context.Context, sets Sets) (locked int, refused []string) {
	for i := range resources {
		res := resource(i)
		lock, err := sets.At(res).TryLock(ctx, []string{res}, ttl)
		if errors.Is(err, redlock.ErrNoQuorum) {
			refused = append(refused, res)
			continue
		}
		stage.Must(err)
		locked++
		stage.Must(lock.Unlock(ctx))
	}
	return locked, refused
}
