// Leader has several candidates of which at most one leads. Another one takes over
// when it resigns or is cut off:
//
//	go run ./examples/leader
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	resource = "leader"

	// ttl is how long nobody leads after a leader has died without a word. A shorter one
	// costs more extensions (three per ttl), and patience with slow nodes.
	ttl = 2 * time.Second

	// stopTime is how long lead may take to stop. A term that cannot be extended ends so
	// long before the next leader can be elected.
	stopTime = 500 * time.Millisecond

	// pause is how long a candidate stays away after its term. Without it, one whose lead
	// fails at once would stand again without end. Nobody waits for it: the next leader is
	// a candidate that stands already.
	pause = time.Second
)

// errResigned is the cause for which the context of a term ends after Resign.
var errResigned = errors.New("the leader has resigned")

// A Candidate stands for leader. There is one in every process.
type Candidate struct {
	r    *redlock.Redlock
	name string

	mu     sync.Mutex
	lock   *redlock.Lock // of the last term, nil before the first one
	ended  func() error  // why it ended, nil while it goes on
	resign context.CancelCauseFunc
}

// Campaign stands for leader again and again, until ctx or the Redlock ends. It calls
// lead for each term; lead must return within the stop time after its context has ended.
func (c *Candidate) Campaign(ctx context.Context, lead func(ctx context.Context)) error {
	for {
		// -1: wait for as long as it takes, also while no quorum of nodes answers. So
		// an error is the end of ctx or of the Redlock, or a mistake in the arguments.
		lock, err := c.r.Lock(ctx, []string{resource}, ttl,
			redlock.WithRetryCount(-1), redlock.WithOwner(c.name), redlock.WithStopTime(stopTime))
		if err != nil {
			return err
		}
		// Where nodes have lost the lock, or the process was suspended, there is no time left
		// to stop: what must not be done by two even then goes with a fence. Do releases the
		// lock, so that the next leader need not wait for the end of the ttl. Its error says
		// that the term had ended before; that is no news here.
		_ = lock.Do(ctx, func(ctx context.Context, lock *redlock.Lock) error {
			lead(c.begin(ctx, lock))
			c.Resign() // lead may have had enough.
			return nil
		})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin returns the context of a new term.
func (c *Candidate) begin(ctx context.Context, lock *redlock.Lock) context.Context {
	ctx, resign := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lock, c.ended, c.resign = lock, ctx.Err, resign
	return ctx
}

// IsLeader says whether the candidate leads now. It asks no node. As with every lease,
// that may be over a moment later: work belongs into lead, and stops with its context.
func (c *Candidate) IsLeader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock != nil && c.ended() == nil && c.lock.Err() == nil
}

// Resign ends the term, if there is one. When lead has returned, the next leader is elected
// after two round trips: about 1 ms with servers on the same machine (BenchmarkResignation).
func (c *Candidate) Resign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		c.resign(errResigned)
	}
}

// Leader returns the name of the candidate that leads, "" if there is none. Everybody
// can ask, also without being a candidate. The answer may be old when it arrives.
func Leader(ctx context.Context, r *redlock.Redlock) (string, error) {
	seen, err := r.Inspect(ctx, resource)
	if err != nil || seen.Held {
		return seen.Owner, err
	}
	answers := 0
	for _, n := range seen.Nodes {
		if n.Err == nil {
			answers++
		}
	}
	if answers < seen.Need {
		return "", redlock.ErrNoQuorum // Somebody may lead.
	}
	return "", nil
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
	candidates []*Candidate
	terms      chan term            // one for every new leader, which leads when it was heard
	stop       []context.CancelFunc // ends the process of a candidate
	done       []chan error         // gets what its campaign returned
}

func open(ctx context.Context, s *recipe.Stage) (*election, error) {
	clients, err := s.Clients(len(names))
	if err != nil {
		return nil, err
	}
	e := &election{terms: make(chan term)}
	for i, r := range clients {
		running, cancel := context.WithCancel(ctx)
		c, done := &Candidate{r: r, name: names[i]}, make(chan error, 1)
		e.candidates, e.stop, e.done = append(e.candidates, c), append(e.stop, cancel), append(e.done, done)
		go func() { done <- c.Campaign(running, func(ctx context.Context) { e.lead(ctx, s, i) }) }()
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

func (e *election) close() error {
	var errs []error
	for i, cancel := range e.stop {
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
	last, err := e.next(ctx, s)
	if err != nil {
		return err
	}
	watcher, err := s.Client()
	if err != nil {
		return err
	}
	leader, err := Leader(ctx, watcher)
	if err != nil || leader != names[last.leader] {
		return fmt.Errorf("%q leads, says everybody who asks: %w", leader, err)
	}
	s.Say("Everybody who asks is told so: %s.", leader)

	last, err = e.follow(ctx, s, last, "%s resigns.", e.candidates[last.leader].Resign)
	if err != nil {
		return err
	}
	last, err = e.follow(ctx, s, last, "The process of %s is told to end.", e.stop[last.leader])
	if err != nil {
		return err
	}

	s.Say("Three of five nodes die.")
	if err = s.Kill(3); err != nil {
		return err
	}
	select {
	case cause := <-last.ended:
		if !errors.Is(cause, redlock.ErrStopTime) {
			return fmt.Errorf("it should have been time to stop: %w", cause)
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

// follow ends a term and waits for the next leader, which must be another one.
func (e *election) follow(ctx context.Context, s *recipe.Stage, last term, say string, end func()) (term, error) {
	s.Say(say, names[last.leader])
	end()
	next, err := e.next(ctx, s)
	if err == nil && next.leader == last.leader {
		err = errors.New("who has just led leads again")
	}
	return next, err
}
