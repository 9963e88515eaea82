// Balance has several cash machines pay out from one account at once. Without a
// lock it is overdrawn:
//
//	go run ./examples/balance
package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/redlock"
)

const ttl = 5 * time.Second

var errNotEnough = errors.New("not enough on the account")

// withdraw takes an amount from an account, if there is so much on it.
func withdraw(ctx context.Context, r *redlock.Redlock, bank *recipe.Store[int], account string, amount int) error {
	// Do waits for the lock, extends it while the function runs, and releases it.
	return r.Do(ctx, []string{"account:" + account}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
		// Read under the lock: what was read before may be old.
		balance, err := bank.Get(ctx, account)
		if err != nil {
			return err
		}
		if balance < amount {
			return errNotEnough
		}
		// This ctx ends when the lock does, so a store that is given it does not write
		// too late. With one that takes no context, ask lock.Err() here.
		//
		// The lock does not replace a fence: a process that is suspended right here, and
		// for long, wakes up before it knows. So where the store has conditions, use
		// them as well: UPDATE … WHERE balance = (what was read).
		return bank.Set(ctx, account, balance-amount)
	})
	// If the lock was lost in the middle, the error is ErrLost, even if all was written.
	// Then look at the account before you try again.
}

// withoutLock is what goes wrong: all machines read the same balance, and each one
// finds that it is enough.
func withoutLock(ctx context.Context, bank *recipe.Store[int], account string, amount int) error {
	balance, err := bank.Get(ctx, account)
	if err != nil {
		return err
	}
	if balance < amount {
		return errNotEnough
	}
	return bank.Set(ctx, account, balance-amount)
}

func main() { recipe.Main(tell) }

const (
	machines = 5
	start    = 100
	amount   = 30
)

func tell(ctx context.Context, s *recipe.Stage) error {
	s.Say("There is %d on the account, and %d machines are to pay out %d each.", start, machines, amount)
	clients, err := open(s)
	if err != nil {
		return err
	}
	paid, left, err := payOut(ctx, func(bank *recipe.Store[int], _ int) error {
		return withoutLock(ctx, bank, "joint", amount)
	})
	if err != nil {
		return err
	}
	s.Say("Without the lock: they paid %d, and %d is left.", paid, left)
	if paid <= start {
		return errors.New("the account should have been overdrawn")
	}
	paid, left, err = payOut(ctx, func(bank *recipe.Store[int], i int) error {
		return withdraw(ctx, clients[i], bank, "joint", amount)
	})
	if err != nil {
		return err
	}
	s.Say("With the lock:    they paid %d, and %d is left.", paid, left)
	if paid != start/amount*amount || left != start-paid {
		return errors.New("the account should have been emptied")
	}
	return nil
}

// open returns a Redlock for every machine.
func open(s *recipe.Stage) ([]*redlock.Redlock, error) {
	return s.Clients(machines, redlock.WithRetryCount(-1), redlock.WithRetryDelay(50*time.Millisecond))
}

// payOut has all machines pay at once, from a new account. It returns how much they
// paid and what was left then.
func payOut(ctx context.Context, pay func(bank *recipe.Store[int], i int) error) (paid, left int, err error) {
	bank := recipe.NewStore[int](200 * time.Millisecond)
	if err = bank.Set(ctx, "joint", start); err != nil {
		return 0, 0, err
	}
	var sum atomic.Int64
	errs := recipe.Together(machines, func(i int) error {
		failed := pay(bank, i)
		switch {
		case failed == nil:
			sum.Add(amount)
		case errors.Is(failed, errNotEnough):
		default:
			return fmt.Errorf("machine %d: %w", i+1, failed)
		}
		return nil
	})
	if err = errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	left, err = bank.Get(ctx, "joint")
	return int(sum.Load()), left, err
}
