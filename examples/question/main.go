// Question deals the two players of a round the same question, although both ask
// for it at once:
//
//	go run ./examples/question
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

// A dealer deals questions. There is one in every process.
type dealer struct {
	r         *redlock.Redlock
	questions *recipe.Store[string] // by round
	draw      func() string
}

// question returns the question of a round. Whoever asks first draws it.
func (d *dealer) question(ctx context.Context, round string) (string, error) {
	// Read. Mostly it is there already, and reading it takes no lock.
	q, err := d.questions.Get(ctx, round)
	if err != nil || q != "" {
		return q, err
	}
	// Lock.
	err = d.r.Do(ctx, []string{"round:" + round}, ttl, func(ctx context.Context, lock *redlock.Lock) (err error) {
		// Read again: what was read before the lock may be old. While this player
		// waited for the lock, the other one has drawn.
		if q, err = d.questions.Get(ctx, round); err != nil || q != "" {
			return err
		}
		q = d.draw()
		// Store, if the lock is still held: drawing may have taken long, or the process
		// may have been suspended. That can happen after this line, too: a store that
		// can do so should insert only where nothing is (INSERT … ON CONFLICT DO NOTHING).
		if err := lock.Err(); err != nil {
			return err
		}
		return d.questions.Set(ctx, round, q)
	})
	return q, err
}

// withoutLock is what goes wrong.
func (d *dealer) withoutLock(ctx context.Context, round string) (string, error) {
	q, err := d.questions.Get(ctx, round)
	if err != nil || q != "" {
		return q, err
	}
	q = d.draw() // The other player has read nothing, too, and draws another one.
	return q, d.questions.Set(ctx, round, q)
}

func main() { recipe.Main(tell) }

func tell(ctx context.Context, s *recipe.Stage) error {
	players, drawn, err := deal(s)
	if err != nil {
		return err
	}
	s.Say("Two players ask for the question of a round at once.")
	for n := range 2 {
		dealt, askErr := ask(players, func(d *dealer) (string, error) {
			return d.withoutLock(ctx, fmt.Sprintf("unlocked %d", n))
		})
		if askErr != nil {
			return askErr
		}
		s.Say("Without the lock, round %d: %s", n+1, strings.Join(dealt, " and "))
	}
	before := drawn.Load()
	const rounds = 3
	for n := range rounds {
		dealt, askErr := ask(players, func(d *dealer) (string, error) {
			return d.question(ctx, fmt.Sprintf("locked %d", n))
		})
		if askErr != nil {
			return askErr
		}
		s.Say("With the lock, round %d: %s", n+1, strings.Join(dealt, " and "))
		if dealt[0] != dealt[1] {
			return errors.New("the players have different questions")
		}
	}
	s.Say("%d questions were drawn for these %d rounds.", drawn.Load()-before, rounds)
	return nil
}

// deal returns two dealers, and how many questions they have drawn.
func deal(s *recipe.Stage) ([]*dealer, *atomic.Int64, error) {
	// The players wait for each other for a moment only: no reason to wait for long
	// between two attempts.
	clients, err := s.Clients(2, redlock.WithRetryCount(-1), redlock.WithRetryDelay(20*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	var (
		drawn     atomic.Int64
		questions = recipe.NewStore[string](100 * time.Millisecond)
		dealers   = make([]*dealer, len(clients))
	)
	for i, r := range clients {
		dealers[i] = &dealer{r: r, questions: questions, draw: func() string {
			return fmt.Sprintf("question %d", drawn.Add(1))
		}}
	}
	return dealers, &drawn, nil
}

// ask has all players ask at once.
func ask(players []*dealer, question func(d *dealer) (string, error)) ([]string, error) {
	dealt := make([]string, len(players))
	errs := recipe.Together(len(players), func(i int) (err error) {
		dealt[i], err = question(players[i])
		return err
	})
	return dealt, errors.Join(errs...)
}
