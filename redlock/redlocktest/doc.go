// Package redlocktest is for tests of code that uses package redlock: a Redlock over nodes in
// memory, and ways to cause what otherwise happens only in production. No server is needed. It
// depends on a module that the library does not need, so it takes a command of its own:
//
//	go get github.com/seed6c881748/redlock/redlock/redlocktest
//
// [New] makes a [Cluster]: its field Redlock is for the code under test, its methods make a
// resource taken ([Cluster.Take]), a held lock lost ([Cluster.Lose], [Cluster.Forget]), a
// quorum impossible ([Cluster.HangMajority], [Cluster.StopMajority]) and the nodes slow
// ([Cluster.Slow]); [Cluster.Holder], [Cluster.Held] and [Cluster.AssertFree] show the result.
//
// # Example
//
// This is a job that several machines must not do at once, here with a fake for the work
// itself:
//
//	type reporter struct {
//		locks *redlock.Redlock
//		send  func(ctx context.Context) error
//	}
//
//	func (r *reporter) report(ctx context.Context) error {
//		return r.locks.Do(ctx, []string{"report"}, 30*time.Second,
//			func(ctx context.Context, _ *redlock.Lock) error { return r.send(ctx) })
//	}
//
// It must not send while another machine does, and must stop when it has lost the
// lock:
//
//	func TestReportIsSentByOne(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			cluster := redlocktest.New(t, 3)
//			sent := 0
//			r := &reporter{locks: cluster.Redlock, send: func(context.Context) error { sent++; return nil }}
//
//			release := cluster.Take("report", time.Minute)
//			if err := r.report(t.Context()); !errors.Is(err, redlock.ErrTaken) || sent != 0 {
//				t.Errorf("another machine has the lock: sent %d, %v", sent, err)
//			}
//			release()
//			if err := r.report(t.Context()); err != nil || sent != 1 {
//				t.Errorf("nobody has the lock: sent %d, %v", sent, err)
//			}
//			cluster.AssertFree()
//		})
//	}
//
//	func TestReportStopsWhenItsLockIsLost(t *testing.T) {
//		cluster := redlocktest.New(t, 3)
//		r := &reporter{locks: cluster.Redlock, send: func(ctx context.Context) error {
//			lock, _ := redlock.FromContext(ctx)
//			cluster.Lose(lock)
//			<-ctx.Done()
//			return ctx.Err()
//		}}
//		if err := r.report(t.Context()); !errors.Is(err, redlock.ErrLost) {
//			t.Errorf("the lock was lost, but report returned %v", err)
//		}
//	}
//
// # Time
//
// Inside a bubble of [testing/synctest] everything waits by the bubble's fake clock: retries,
// ttls, the expiry of keys. The first of the tests above would otherwise take 2 s, the default
// of Lock's retries. The Cluster must be made inside the bubble: not in TestMain, nor in a
// set-up function that gets the T of the test around it. Outside of a bubble everything waits
// in real time, as with real servers: give the code under test a short ttl, or give New options
// such as redlock.WithRetryCount(0).
package redlocktest
