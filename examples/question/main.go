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

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

// A dealer deals questions. There is one in every process.
type dealer struct {
	r         *redlock.Redlock
	questions *stage.Store[string] // by round
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

func main() { stage.Main(tell) }

func tell(ctx context.Context, s *stage.Stage) {
	players, drawn := deal(s)
	s.Say("Two players ask for the question of a round at once.")
	for n := range 2 {
		dealt := ask(players, func(d *dealer) (string, error) { return d.withoutLock(ctx, fmt.Sprintf("unlocked %d", n)) })
		s.Say("Without the lock, round %d: %s", n+1, strings.Join(dealt, " and "))
	}
	before := drawn.Load()
	const rounds = 3
	for n := range rounds {
		dealt := ask(players, func(d *dealer) (string, error) { return d.question(ctx, fmt.Sprintf("locked %d", n)) })
		s.Say("With the lock, round %d: %s", n+1, strings.Join(dealt, " and "))
		stage.Check(dealt[0] == dealt[1] && dealt[0] != "", "the players have different questions")
	}
	s.Say("%d questions were drawn for these %d rounds.", drawn.Load()-before, rounds)
	stage.Check(drawn.Load()-before == rounds, "one question should be drawn for a round")
}

// deal returns two dealers, and how many questions they have drawn.
func deal(s *stage.Stage) (dealers []*dealer, drawn *atomic.Int64) {
	drawn = new(atomic.Int64)
	questions := stage.NewStore[string](100 * time.Millisecond)
	// The players wait for each other for a moment only: no reason to wait for long
	// between two attempts.
	for _, r := range s.Clients(2, redlock.WithRetryCount(-1), redlock.WithRetryDelay(20*time.Millisecond)) {
		dealers = append(dealers, &dealer{r: r, questions: questions, draw: func() string {
			return fmt.Sprintf("question %d", drawn.Add(1))
		}})
	}
	return dealers, drawn
}

// ask has all players ask at once.
func ask(players []*dealer, question func(d *dealer) (string, error)) []string {
	dealt := make([]string, len(players))
	stage.Must(errors.Join(stage.Together(len(players), func(i int) (err error) {
		dealt[i], err = question(players[i])
		return err
	})...))
	return dealt
}
