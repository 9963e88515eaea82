// Package shared has locks that many may hold to read, or one to write, over the nodes of a [redlock.Redlock].
//
// # Model
//
// A name has 32 slots ([MaxReaders]), each of them a resource, and a turnstile, which is one more. A reader has one slot, by
// an ordinary lock that all readers of its process share; a writer has all slots, by one lock. So what is promised of
// locks holds: no writer ever has the name beside anybody else by the clocks of both, and both are leases. What a process has
// that is killed ends with its ttl, while others go on.
//
// The turnstile is for the order only. A writer stands there until the readers have gone; a reader that finds a
// writer there, or all slots taken, stands in line behind it. Whoever does so is next in about the order in which they came.
// Readers of a process join those that are there without asking the nodes, but not if 10 ms have passed since it was
// last seen that no writer waits. So a writer waits, once it is next, at most for the readers that are there, and for those
// that come within 10 ms. One that is killed while it waits keeps readers out for 2 s at most.
//
// # What it does not do
//
//   - A plain lock on the same name, by this package's neighbours, redsync or node-redlock, is another lock: neither excludes
//     the other. So all who use a name have to use this package, with the same prefix.
//   - No more than 32 processes (Mutexes) read at the same time. Others wait until one of them has no reader.
//   - There is no upgrade from reading to writing, which could only deadlock, no downgrade, and no reentrancy: Lock and
//     RLock refuse a context that comes from one that has the name (ErrAlreadyHeld).
//   - Whoever keeps a Reader and never unlocks it keeps writers out, as long as the process lives.
//     [redlock.WithMaxHold] sets a limit. It is that of what a process shares: one who joins has what is left of it.
//
// # Options
//
// Options of New are those of a reader's slot and of a writer's. With [redlock.WithFencing] the fence of each writer is
// larger than those of all writers and readers that had the name before, and smaller than those that come later: each slot
// has its counter, so a writer costs more. With [redlock.WithPolling] nobody stands in line, and the order is chance. [redlock.WithQuarantine] of the Redlock keeps a writer out where nodes have
// forgotten a reader. docs/shared.md has what it costs, and why it is built so.
//
// # Use
//
//	prices, err := shared.New(r, "prices", 10*time.Second)
//	if err != nil {
//		log.Fatal(err)
//	}
//
//	err = prices.RDo(ctx, func(ctx context.Context, _ *shared.Reader) error {
//		// Others may read, too. If the lock is lost all the same, ctx ends.
//		fmt.Println("nobody changes the prices")
//		return nil
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//
//	err = prices.Do(ctx, func(ctx context.Context, _ *shared.Writer) error {
//		fmt.Println("nobody reads or changes them but me")
//		return nil
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
package shared
