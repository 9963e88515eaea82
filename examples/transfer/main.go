// Transfer moves money between two accounts, in both directions at once, under one
// lock on both of them:
//
//	go run ./examples/transfer
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

const ttl = 5 * time.Second

var errNotEnough = errors.New("not enough on the account")

// transfer moves an amount from one account to another.
func transfer(ctx context.Context, r *redlock.Redlock, bank *recipe.Store[int], from, to string, amount int) error {
	if from == to {
		return nil // It would be written twice below.
	}
	// One lock on both accounts, all or nothing: with a lock on one and then on the other,
	// two transfers in opposite directions wait for each other for ever. The order of
	// the resources does not matter.
	return r.Do(ctx, []string{from, to}, ttl, func(ctx context.Context, lock *redlock.Lock) error {
		// Both are read under the lock: what was read before may be old.
		has, err := bank.Get(ctx, from)
		if err != nil {
			return err
		}
		if has < amount {
			return errNotEnough
		}
		gets, err := bank.Get(ctx, to)
		if err != nil {
			return err
		}
		// The last look before the writes. The lock keeps others out, but makes no
		// transaction of two writes: who dies between them has taken and not given. A
		// database writes both in one transaction, with what was read as a condition.
		if err := lock.Err(); err != nil {
			return err
		}
		if err := bank.Set(ctx, from, has-amount); err != nil {
			return err
		}
		// Not with ctx, which may end here: half a transfer is worse than a late one.
		return bank.Set(context.WithoutCancel(ctx), to, gets+amount)
	})
}

// oneByOne is what goes wrong: it takes the lock on from, calls locked, goes for the
// lock on to, and calls tried. It returns the error of the second lock.
func oneByOne(ctx context.Context, r *redlock.Redlock, from, to string, locked, tried func()) error {
	return r.Do(ctx, []string{from}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		locked()
		defer tried()
		return r.Do(ctx, []string{to}, ttl, func(context.Context, *redlock.Lock) error { return nil })
	})
}

func main() { recipe.Main(tell) }

const (
	ann, bob = "account:ann", "account:bob"
	start    = 100
)

func tell(ctx context.Context, s *recipe.Stage) error {
	const each = 3 // transfers in each direction
	clients, err := open(s, 2*each)
	if err != nil {
		return err
	}
	const wait = time.Second
	s.Say("One lock after the other: Ann to Bob and Bob to Ann wait for each other, until they give up after %v.", wait)
	for _, blocked := range deadlock(ctx, clients, wait) {
		s.Say("    %v", shorten(blocked))
		if !errors.Is(blocked, redlock.ErrTaken) {
			return fmt.Errorf("should be blocked: %w", blocked)
		}
	}

	s.Say("One lock on both: %d transfers from Ann to Bob, and as many from Bob to Ann, at once.", each)
	bank, err := newBank(ctx, 20*time.Millisecond)
	if err != nil {
		return err
	}
	if err = cross(ctx, clients, bank); err != nil {
		return err
	}
	a, b, err := balances(ctx, bank)
	if err != nil {
		return err
	}
	s.Say("All are done. Ann had %d and has %d, Bob had %d and has %d.", start, a, start, b)
	if a != start || b != start {
		return errors.New("both should have what they had")
	}
	return nil
}

func open(s *recipe.Stage, n int) ([]*redlock.Redlock, error) {
	return s.Clients(n, redlock.WithRetryCount(-1), redlock.WithRetryDelay(50*time.Millisecond))
}

func newBank(ctx context.Context, delay time.Duration) (*recipe.Store[int], error) {
	bank := recipe.NewStore[int](delay)
	return bank, errors.Join(bank.Set(ctx, ann, start), bank.Set(ctx, bob, start))
}

func balances(ctx context.Context, bank *recipe.Store[int]) (a, b int, err error) {
	a, errA := bank.Get(ctx, ann)
	b, errB := bank.Get(ctx, bob)
	return a, b, errors.Join(errA, errB)
}

// cross has every client transfer at once: half of them from Ann to Bob, the other
// half back.
func cross(ctx context.Context, clients []*redlock.Redlock, bank *recipe.Store[int]) error {
	return errors.Join(recipe.Together(len(clients), func(i int) error {
		from, to := ann, bob
		if i%2 == 1 {
			from, to = bob, ann
		}
		return transfer(ctx, clients[i], bank, from, to, 10)
	})...)
}

// deadlock has two clients transfer one by one, in opposite directions, and returns
// their errors.
func deadlock(ctx context.Context, clients []*redlock.Redlock, wait time.Duration) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var locked, tried sync.WaitGroup
	locked.Add(2)
	tried.Add(2)
	return recipe.Together(2, func(i int) error {
		accounts := []string{ann, bob}
		return oneByOne(ctx, clients[i], accounts[i], accounts[1-i], func() {
			locked.Done()
			locked.Wait() // Each has its first lock.
			time.AfterFunc(wait, cancel)
		}, func() {
			tried.Done()
			tried.Wait() // Or the one that gives up last would get the other's lock.
		})
	})
}

// shorten leaves out what every node has said.
func shorten(err error) string {
	var failed *redlock.QuorumError
	if !errors.As(err, &failed) {
		return err.Error()
	}
	return fmt.Sprintf("lock on %q: %v", failed.Resources, failed.Unwrap())
}
