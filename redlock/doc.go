// Package redlock locks resources over N independent Redis masters by quorum:
// the Redlock algorithm (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// # Model
//
// A resource is locked while more than half of the nodes store this lock's token under the resource's key. All
// clients of a resource have the same nodes. A lock is a lease: it ends at a known instant, [Lock.Until], whatever
// its holder does, and a holder that was suspended may find out too late. Several resources are locked together, all
// or nothing.
//
// # Guarantees
//
// Two locks on one resource never have overlapping validity, under any delay, loss or duplication of messages, any
// pause or crash of clients and any crash of a minority of nodes, as long as the clocks of clients and nodes run at
// rates that the drift allowance covers and nodes do not lose their keys. A node that restarts without its data loses
// them: see docs/safety.md for what to configure against that.
//
// With [WithFencing] each lock has a number, [Lock.Fence], that is larger than those of
// all earlier locks on its resources, whatever clocks do, as long as nodes keep their counters.
// A resource that refuses smaller ones than it has seen is safe from holders that go on too late.
//
// Lock, TryLock, Extend and Unlock do not wait for a hung, dead or slow minority of nodes. Every call ends within its
// own timeouts. No failed, cancelled or abandoned attempt leaves a key behind on a node that can be reached, unless
// the process ends first or the request arrives very late: docs/safety.md has the cases.
//
// # Use
//
//	nodes := []redlock.Node{
//		redlock.NewNode("10.0.0.1:6379"),
//		redlock.NewNode("10.0.0.2:6379"),
//		redlock.NewNode("10.0.0.3:6379"),
//	}
//
//	r, err := redlock.New(nodes)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer func() { _ = r.Close(ctx) }()
//
//	err = r.Do(ctx, []string{"account:42"}, 10*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
//		// The lock is extended until this function returns. If it is lost all the same, ctx ends.
//		fmt.Println("nobody else works on", lock.Resources())
//		return nil
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//
// If a function does not fit, use the calls that Do is made of. [Redlock.Lock] waits for a lock, for about 2 s by
// default ([WithRetryCount]), and [Redlock.TryLock] does not. [Lock.KeepAlive] extends a lock again and again, and
// [Lock.Extend] does so once. [Lock.Unlock] releases it.
//
// Unlock's error says whether the lock was still held when the work was done: it matches ErrLost if not, even if the
// nodes have confirmed the release. A job that must not run twice should look at that error.
package redlock
