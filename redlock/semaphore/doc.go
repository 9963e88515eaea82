// Package semaphore limits how many holders a name has at the same time, over the nodes of a
// [redlock.Redlock]: at most k, in all processes together.
//
// # Model
//
// A semaphore of k permits has k slots, the resources name#0 to name#k-1. A permit is an ordinary
// lock on one of them. Everything that is promised of locks holds for permits: no two permits on
// one slot ever have overlapping validity, a permit is a lease that ends at a known instant, and
// options such as [redlock.WithFencing] and [redlock.WithOwner] work as they do for any lock.
// Fences are per slot: those of two slots say nothing about each other.
//
// Nodes that each count to k would not do: a client needs a quorum of the nodes and leaves the
// others free, so that 3 nodes which count to 2 let 3 clients in. See docs/semaphore.md.
//
// # Waiting
//
// Callers of one Semaphore stand in one line, and are served in the order in which they came.
// Processes take turns, as they do for a lock. So permits are shared fairly among processes,
// whatever the number of their callers: use one Semaphore for each name in a process. All permits
// count the same; there are no weights.
//
// Acquire and TryAcquire lock slots on goroutines of the Semaphore. Nobody can recover from a panic there:
// if a [redlock.Tracer] panics, the process ends, as it does in an extension by KeepAlive.
//
// # Changing k
//
// All processes should use the same k. While they differ, at most the largest k permits are in
// use. So k can be raised in a rolling deployment. After it was lowered everywhere, permits on
// slots that are no more go on until they are released or expire.
//
// # Limits per time
//
// With [redlock.WithMinHold], a slot stays taken for at least that time after its caller got it, even
// if the permit is released earlier or its holder dies. So at most k permits are granted in any such
// period, as the callers see it: from when Acquire or TryAcquire returned, or Do called its function.
// See [redlock.WithMinHold] for what to add if clocks are fast or processes stand still.
//
// # Use
//
//	s, err := semaphore.New(r, "resize-images", 5, 10*time.Second)
//	if err != nil {
//		log.Fatal(err)
//	}
//
//	err = s.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
//		// The permit is extended until this function returns. If it is lost all the same, ctx ends.
//		fmt.Println("at most five of us are at work")
//		return nil
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
package semaphore
