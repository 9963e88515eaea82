// Transfer moves money between two accounts, in both directions at once, under one
// lock on both of them:
//
//	go run ./examples/transfer
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

var errNotEnough = errors.New("not enough on the account")

// transfer moves an amount from one account to another.
func transfer(ctx context.Context, r *redlock.Redlock, bank *stage.Store[int], from, to string, amount int) error {
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

func main() { stage.Main(tell) }

const (
	ann, bob = "account:ann", "account:bob"
	start    = 100
)

func tell(ctx context.Context, s *stage.Stage) {
	const each = 3 // transfers in each direction
	clients := open(s, 2*each)
	const wait = time.Second
	s.Say("One lock after the other: Ann to Bob and Bob to Ann wait for each other, until they give up after %v.", wait)
	for _, blocked := range deadlock(ctx, clients, wait) {
		stage.Check(errors.Is(blocked, redlock.ErrTaken), "should be blocked: %w", blocked)
		var failed *redlock.QuorumError
		if errors.As(blocked, &failed) { // What every node has said is left out.
			s.Say("    lock on %q: %v", failed.Resources, failed.Unwrap())
		}
	}

	s.Say("One lock on both: %d transfers from Ann to Bob, and as many from Bob to Ann, at once.", each)
	bank := newBank(ctx, 20*time.Millisecond)
	stage.Must(errors.Join(stage.Together(len(clients), func(i int) error {
		from, to := ann, bob
		if i%2 == 1 {
			from, to = bob, ann
		}
		return transfer(ctx, clients[i], bank, from, to, 10)
	})...))
	a, b := stage.Got(bank.Get(ctx, ann)), stage.Got(bank.Get(ctx, bob))
	s.Say("All are done. Ann had %d and has %d, Bob had %d and has %d.", start, a, start, b)
	stage.Check(a == start && b == start, "both should have what they had")
}

func open(s *stage.Stage, n int) []*redlock.Redlock {
	return s.Clients(n, redlock.WithRetryCount(-1), redlock.WithRetryDelay(50*time.Millisecond))
}

func newBank(ctx context.Context, delay time.Duration) *stage.Store[int] {
	bank := stage.NewStore[int](delay)
	stage.Must(errors.Join(bank.Set(ctx, ann, start), bank.Set(ctx, bob, start)))
	return bank
}

// deadlock has two clients transfer one by one, in opposite directions, and returns
// their errors.
func deadlock(ctx context.Context, clients []*redlock.Redlock, wait time.Duration) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var locked, tried sync.WaitGroup
	locked.Add(2)
	tried.Add(2)
	return stage.Together(2, func(i int) error {
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
