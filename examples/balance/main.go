// Balance has several cash machines pay out from one account at once. Without a
// lock it is overdrawn:
//
//	go run ./examples/balance
package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

var errNotEnough = errors.New("not enough on the account")

// withdraw takes an amount from an account, if there is so much on it.
func withdraw(ctx context.Context, r *redlock.Redlock, bank *stage.Store[int], account string, amount int) error {
	// Do waits for the lock, extends it while the function runs, and releases it.
	return r.Do(ctx, []string{"account:" + account}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		// This ctx ends when the lock does, so a store that is given it does not write
		// too late. With one that takes no context, ask lock.Err() before you write.
		return withoutLock(ctx, bank, account, amount)
	})
	// If the lock was lost in the middle, the error is ErrLost, even if all was written.
	// Then look at the account before you try again.
}

// withoutLock is what goes wrong by itself: all machines read the same balance, and each one
// finds that it is enough.
func withoutLock(ctx context.Context, bank *stage.Store[int], account string, amount int) error {
	// Read under the lock: what was read before may be old.
	balance, err := bank.Get(ctx, account)
	if err != nil {
		return err
	}
	if balance < amount {
		return errNotEnough
	}
	// The lock does not replace a fence: a process that is suspended right here, and
	// for long, wakes up before it knows. So where the store has conditions, use
	// them as well: UPDATE … WHERE balance = (what was read).
	return bank.Set(ctx, account, balance-amount)
}

func main() { stage.Main(tell) }

const (
	machines = 5
	start    = 100
	amount   = 30
)

func tell(ctx context.Context, s *stage.Stage) {
	s.Say("There is %d on the account, and %d machines are to pay out %d each.", start, machines, amount)
	paid, left := payOut(ctx, func(bank *stage.Store[int], _ int) error { return withoutLock(ctx, bank, "joint", amount) })
	s.Say("Without the lock: they paid %d, and %d is left.", paid, left)
	stage.Check(paid > start, "the account should have been overdrawn")

	clients := open(s)
	paid, left = payOut(ctx, func(bank *stage.Store[int], i int) error {
		return withdraw(ctx, clients[i], bank, "joint", amount)
	})
	s.Say("With the lock:    they paid %d, and %d is left.", paid, left)
	stage.Check(paid == start/amount*amount && left == start-paid, "the account should have been emptied")
}

// open returns a Redlock for every machine.
func open(s *stage.Stage) []*redlock.Redlock {
	return s.Clients(machines, redlock.WithRetryCount(-1), redlock.WithRetryDelay(50*time.Millisecond))
}

// payOut has all machines pay at once, from a new account. It returns how much they
// paid and what was left then.
func payOut(ctx context.Context, pay func(bank *stage.Store[int], i int) error) (paid, left int) {
	bank := stage.NewStore[int](200 * time.Millisecond)
	stage.Must(bank.Set(ctx, "joint", start))
	errs := stage.Together(machines, func(i int) error { return pay(bank, i) })
	for _, err := range errs {
		if !errors.Is(err, errNotEnough) {
			stage.Must(err)
			paid += amount
		}
	}
	return paid, stage.Got(bank.Get(ctx, "joint"))
}
