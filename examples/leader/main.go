// Leader has several candidates of which at most one leads, and another one takes
// over when it resigns or is cut off:
//
//	go run ./examples/leader
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

// ttl is how long nobody leads after a leader has died without a word. A shorter one
// costs more extensions (three per ttl), and patience with slow nodes.
const ttl = 2 * time.Second

// campaign stands for leader again and again, until ctx or the Redlock ends. It
// calls lead for each term; lead must return soon after its context has ended.
func campaign(ctx context.Context, r *redlock.Redlock, lead func(ctx context.Context)) error {
	for {
		// -1: wait for as long as it takes, also while no quorum of nodes answers. So
		// an error is the end of ctx or of the Redlock, or a mistake in the arguments.
		lock, err := r.Lock(ctx, []string{"leader"}, ttl, redlock.WithRetryCount(-1))
		if err != nil {
			return err
		}
		// The term's context ends at the end of the validity at the latest, before
		// anybody else can be elected. It cannot stop what lead does in that moment, nor a
		// process that is suspended: what must not be done by two goes with a fence.
		lead(lock.KeepAlive(ctx))

		// Always: it ends the extensions, and the next leader need not wait for the end of
		// the ttl. An error says that the term had ended before; that is no news here.
		_ = lock.Unlock(ctx)
	}
}

func main() { recipe.Main(tell) }

var names = []string{"Ann", "Bob", "Cleo"}

// A term is what a story hears of a new leader.
type term struct {
	leader int
	ended  <-chan error // gets the cause
}

// An election runs candidates, each in its own process.
type election struct {
	terms  chan term            // one for every new leader, which leads when it was heard
	resign []context.CancelFunc // ends the process of a candidate
	done   []chan error         // gets what its campaign returned
}

func open(ctx context.Context, s *recipe.Stage) (*election, error) {
	clients, err := s.Clients(len(names))
	if err != nil {
		return nil, err
	}
	e := &election{terms: make(chan term)}
	for i, r := range clients {
		running, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		e.resign, e.done = append(e.resign, cancel), append(e.done, done)
		go func() { done <- campaign(running, r, func(ctx context.Context) { e.lead(ctx, s, i) }) }()
	}
	return e, nil
}

// lead is what a leader does: nothing, until it is over.
func (e *election) lead(ctx context.Context, s *recipe.Stage, i int) {
	ended := make(chan error, 1)
	select {
	case e.terms <- term{i, ended}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	s.Say("%s leads no more: %v.", names[i], context.Cause(ctx))
	ended <- context.Cause(ctx)
}

// close ends all candidates.
func (e *election) close() error {
	var errs []error
	for i, cancel := range e.resign {
		cancel()
		if err := <-e.done[i]; !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("%s: %w", names[i], err))
		}
	}
	return errors.Join(errs...)
}

// next waits for a new leader.
func (e *election) next(ctx context.Context, s *recipe.Stage) (term, error) {
	select {
	case t := <-e.terms:
		s.Say("%s leads.", names[t.leader])
		return t, nil
	case <-ctx.Done():
		return term{}, ctx.Err()
	}
}

func tell(ctx context.Context, s *recipe.Stage) (err error) {
	e, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	s.Say("%v stand for leader.", names)
	first, err := e.next(ctx, s)
	if err != nil {
		return err
	}
	s.Say("The process of %s is told to end.", names[first.leader])
	e.resign[first.leader]()
	second, err := e.next(ctx, s)
	if err != nil {
		return err
	}
	if second.leader == first.leader {
		return errors.New("who has resigned leads again")
	}

	s.Say("Three of five nodes die.")
	if err = s.Kill(3); err != nil {
		return err
	}
	select {
	case cause := <-second.ended:
		if !errors.Is(cause, redlock.ErrExpired) {
			return fmt.Errorf("the term should have expired: %w", cause)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	s.Say("The nodes come back.")
	if err = s.Revive(3); err != nil {
		return err
	}
	_, err = e.next(ctx, s)
	return err
}
