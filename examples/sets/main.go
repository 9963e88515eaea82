// Sets spreads resources over several sets of nodes, each with its own Redlock, for more
// locks than one set carries. One set dies, and another one is added:
//
//	go run ./examples/sets
//
// sets.go and move.go are to copy. README.md says when which way of moving is right.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	ttl       = 2 * time.Second
	resources = 30
)

func main() {
	for _, row := range table(10_000, 6) {
		fmt.Println(row)
	}
	recipe.Main(tell)
}

// table says what becomes of resources when a set is added.
func table(n, most int) []string {
	rows := []string{
		"| sets | moved by rendezvous hashing | moved by hash modulo sets | resources of a set, after |",
		"|---|---|---|---|",
	}
	names := func(sets int) (s Sets) {
		for i := range sets {
			s = append(s, Set{Name: "set-" + string(rune('a'+i))})
		}
		return s
	}
	for k := 1; k < most; k++ {
		before, after := names(k), names(k+1)
		has := map[string]int{}
		var moved, movedModulo int
		for i := range n {
			res := resource(i)
			set := after.At(res).Name
			has[set]++
			if before.At(res).Name != set {
				moved++
			}
			if modulo(res, k) != modulo(res, k+1) {
				movedModulo++
			}
		}
		percent := func(count int) float64 { return 100 * float64(count) / float64(n) }
		rows = append(rows, fmt.Sprintf("| %d to %d | %.1f %% | %.1f %% | %s |",
			k, k+1, percent(moved), percent(movedModulo), span(has)))
	}
	return rows
}

func resource(i int) string { return fmt.Sprintf("order:%d", i) }

// modulo is the usual way, which is here to compare: most resources move.
func modulo(resource string, sets int) uint64 {
	sum := sha256.Sum256([]byte(resource))
	return binary.BigEndian.Uint64(sum[:]) % uint64(sets)
}

// span is the smallest and the largest of the counts.
func span(counts map[string]int) string {
	least, most := -1, 0
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// open returns n stages, one for each set of nodes; the first one is s.
func open(s *recipe.Stage, n int) ([]*recipe.Stage, error) {
	stages := []*recipe.Stage{s}
	for len(stages) < n {
		other, err := s.Another()
		if err != nil {
			return nil, err
		}
		stages = append(stages, other)
	}
	return stages, nil
}

// connect returns what one process has: a Redlock for each set.
func connect(stages []*recipe.Stage, opts ...redlock.Option) (Sets, error) {
	var sets Sets
	for i, s := range stages {
		r, err := s.Client(opts...)
		if err != nil {
			return nil, err
		}
		sets = append(sets, Set{Name: "set-" + string(rune('a'+i)), Redlock: r})
	}
	return sets, nil
}

func tell(ctx context.Context, s *recipe.Stage) error {
	stages, err := open(s, 4) //nolint:contextcheck // In-memory servers start at once and take no context.
	if err != nil {
		return err
	}
	four, err := connect(stages)
	if err != nil {
		return err
	}
	three := four[:3]

	if err = stages[1].Kill(len(stages[1].Nodes)); err != nil {
		return err
	}
	s.Say("Three sets of nodes have %d resources. All nodes of set-b die.", resources)
	locked, refused, err := lockAll(ctx, three)
	if err != nil {
		return err
	}
	s.Say("  locked in the other sets: %d", len(locked))
	s.Say("  ErrNoQuorum: %s", strings.Join(refused, ", "))
	for _, res := range refused {
		if three.At(res).Name != "set-b" {
			return fmt.Errorf("%q belongs to %s", res, three.At(res).Name)
		}
	}
	if err = stages[1].Revive(len(stages[1].Nodes)); err != nil {
		return err
	}
	s.Say("They are back.")

	m := Move{From: three, To: four}
	return addASet(ctx, s, m)
}

// addASet drains what moves to a fourth set.
func addASet(ctx context.Context, s *recipe.Stage, m Move) error {
	nothing := func(context.Context, *redlock.Lock) error { return nil }
	var moving []string
	for i := range resources {
		res := resource(i)
		if err := m.DoStill(ctx, res, ttl, nothing, redlock.WithRetryCount(-1)); errors.Is(err, errMoving) {
			moving = append(moving, res)
		} else if err != nil {
			return err
		}
	}
	s.Say("set-d is added. These resources move to it: %s", strings.Join(moving, ", "))
	for _, res := range moving {
		if err := m.Drain(ctx, res, ttl); err != nil {
			return err
		}
	}
	s.Say("Nobody holds them any more, and their fences go on in set-d. Now processes may lock there.")
	for i := range resources {
		if err := m.To.At(resource(i)).Do(ctx, []string{resource(i)}, ttl, nothing); err != nil {
			return err
		}
	}
	return nil
}

// lockAll locks all resources for a moment, and says for which there was no quorum.
func lockAll(ctx context.Context, sets Sets) (locked, refused []string, err error) {
	for i := range resources {
		res := resource(i)
		lock, err := sets.At(res).TryLock(ctx, []string{res}, ttl)
		switch {
		case errors.Is(err, redlock.ErrNoQuorum):
			refused = append(refused, res)
			continue
		case err != nil:
			return nil, nil, err
		}
		locked = append(locked, res)
		if err := lock.Unlock(ctx); err != nil {
			return nil, nil, err
		}
	}
	return locked, refused, nil
}
