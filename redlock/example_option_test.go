package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
)

// Who is refused is told who has the lock.
func ExampleWithOwner() {
	lock := locked(other, "owner", redlock.WithOwner("worker-7"))
	defer lock.Unlock(ctx)

	_, err := r.TryLock(ctx, []string{"owner"}, 10*time.Second)
	fmt.Println(strings.Contains(err.Error(), `held by "worker-7"`))
	// Output: true
}

// Two services on the same nodes do not meet.
func ExampleWithPrefix() {
	for _, service := range []string{"billing:", "mail:"} {
		r := cluster.NewRedlock(redlock.WithPrefix(service))
		lock := locked(r, "nightly")
		defer lock.Unlock(ctx)
		fmt.Println(service + lock.Resources()[0])
	}
	// Output:
	// billing:nightly
	// mail:nightly
}

// Two services that share nodes on purpose, and no resource, are not told of each other's nodes.
func ExampleWithSetName() {
	r := cluster.NewRedlock(redlock.WithSetName("billing"))
	fmt.Println(len(r.Stats().Sets), "other sets")
	// Output: 0 other sets
}

// Lock gives up after two retries. -1 would have it wait until the context ends.
func ExampleWithRetryCount() {
	defer cluster.Take("retries", time.Minute)()

	_, err := r.Lock(ctx, []string{"retries"}, 10*time.Second,
		redlock.WithRetryCount(2), redlock.WithRetryDelay(time.Millisecond))
	if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) {
		fmt.Println("attempts:", refused.Attempt)
	}
	// Output: attempts: 3
}

// The wait is limited, and not the work.
func ExampleWithWait() {
	work := func(ctx context.Context, _ *redlock.Lock) error {
		_, limited := ctx.Deadline()
		fmt.Println("the work has a deadline:", limited)
		return nil
	}
	fmt.Println(r.Do(ctx, []string{"report"}, 10*time.Second, work, redlock.WithWait(5*time.Second)))
	// Output:
	// the work has a deadline: false
	// <nil>
}

// With a delay of 50 ms and a jitter of 10 ms Lock waits for 40 to 60 ms between attempts. The jitter is at most the delay.
func ExampleWithRetryJitter() {
	_, err := redlock.New(nodes, redlock.WithRetryDelay(50*time.Millisecond), redlock.WithRetryJitter(time.Second))
	fmt.Println(err)
	// Output: redlock: retry jitter 1s: must not exceed the retry delay 50ms
}

// Waits that double, from 1 ms to 5 s.
func ExampleWithRetryBackoff() {
	defer cluster.Take("backoff", time.Minute)()

	_, err := r.Lock(ctx, []string{"backoff"}, 10*time.Second, redlock.WithRetryCount(3),
		redlock.WithRetryBackoff(func(attempt int) time.Duration {
			wait := min(time.Millisecond<<min(attempt-1, 20), 5*time.Second)
			fmt.Println(wait)
			return wait
		}))
	fmt.Println(errors.Is(err, redlock.ErrTaken))
	// Output:
	// 1ms
	// 2ms
	// 4ms
	// true
}

// Wait for nodes that are down, and not for a holder.
func ExampleWithRetryIf() {
	defer cluster.Take("retry-if", time.Minute)()

	_, err := r.Lock(ctx, []string{"retry-if"}, 10*time.Second,
		redlock.WithRetryIf(func(err error) bool { return errors.Is(err, redlock.ErrNoQuorum) }))
	if refused := (*redlock.QuorumError)(nil); errors.As(err, &refused) {
		fmt.Println("attempts:", refused.Attempt)
	}
	// Output: attempts: 1
}

// For clients that must not open a second connection to each node.
func ExampleWithPolling() {
	lock := locked(r, "polling", redlock.WithPolling())
	defer lock.Unlock(ctx)
	fmt.Println("locked")
	// Output: locked
}

// A resource that many goroutines of a process want all the time: for 10 ms they hand the lock on among themselves.
func ExampleWithTurn() {
	var all sync.WaitGroup
	count := 0
	for range 8 {
		all.Go(func() {
			err := r.Do(ctx, []string{"hot"}, 10*time.Second, func(context.Context, *redlock.Lock) error {
				count++
				return nil
			}, redlock.WithTurn(10*time.Millisecond))
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	all.Wait()
	fmt.Println(count)
	// Output: 8
}

// Clocks that are less exact than the default allows for: 10 % of the ttl is given up.
func ExampleWithDriftFactor() {
	lock := locked(r, "drift", redlock.WithDriftFactor(0.1))
	defer lock.Unlock(ctx)
	fmt.Println(time.Until(lock.Until()) < 9*time.Second)
	// Output: true
}

// Nodes in other regions take longer to answer, and to be connected to with TLS. When their names come to lead to other
// servers, all connections lead there a minute later.
func ExampleNew_elsewhere() {
	_, err := redlock.New(nodes,
		redlock.WithNodeTimeout(time.Second), redlock.WithConnectTimeout(5*time.Second), redlock.WithConnectionAge(time.Minute))
	fmt.Println(err)
	// Output: <nil>
}

// Metrics, logs and traces can be made of events.
func ExampleWithHook() {
	r := cluster.NewRedlock(redlock.WithHook(func(_ context.Context, e redlock.Event) {
		switch e.Kind {
		case redlock.EventAcquired, redlock.EventReleased:
			fmt.Println(e.Kind, e.Resources)
		}
	}))
	err := r.Do(ctx, []string{"hook"}, 10*time.Second, func(context.Context, *redlock.Lock) error { return nil })
	fmt.Println(errors.Join(err, r.Close(ctx))) // Close waits for the hook.
	// Output:
	// acquired [hook]
	// released [hook]
	// <nil>
}

// Whether a quorum of nodes would vote, before a service says that it is ready.
func ExampleRedlock_Ready() {
	r := cluster.NewRedlock()
	fmt.Println(r.Ready(ctx))
	_ = r.Close(ctx)
	fmt.Println(errors.Is(r.Ready(ctx), redlock.ErrClosed))
	// Output:
	// <nil>
	// true
}

// A short job says itself which nodes it could not reach.
func ExampleWithoutLog() {
	r := cluster.NewRedlock(redlock.WithoutLog())
	err := r.Do(ctx, []string{"quiet"}, 10*time.Second, func(context.Context, *redlock.Lock) error { return nil })
	fmt.Println(errors.Join(err, r.Close(ctx)))
	// Output: <nil>
}

// A hook that logs what somebody should look at, and is quiet while all is well.
func ExampleSlogHook() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	r := cluster.NewRedlock(redlock.WithHook(redlock.SlogHook(logger)), redlock.WithNodeTimeout(2*time.Second))
	err := r.Do(ctx, []string{"slog"}, 10*time.Second, func(context.Context, *redlock.Lock) error { return nil })
	if err = errors.Join(err, r.Close(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output:
}

// Nodes without persistence: one that has restarted grants no lock for a minute.
func ExampleWithQuarantine() {
	r := cluster.NewRedlock(redlock.WithQuarantine(time.Minute))
	_, err := r.TryLock(ctx, []string{"quarantine"}, 2*time.Minute)
	fmt.Println(err) // No lock may outlive what the nodes wait for.
	// Output: redlock: ttl 2m0s: must not exceed the quarantine's maxTTL 1m0s
}

// Nothing is dialled before the first lock.
func ExampleNew() {
	r, err := redlock.New([]redlock.Node{
		redlock.NewNode("10.0.0.1:6379"),
		redlock.NewNode("10.0.0.2:6379"),
		redlock.NewNode("10.0.0.3:6379"),
	}, redlock.WithOwner("worker-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	fmt.Println(len(r.Stats().Nodes), "nodes")
	// Output: 3 nodes
}

// The name of a node, which is in errors and events, has no credentials.
func ExampleNewNode() {
	for _, node := range []redlock.Node{
		redlock.NewNode("10.0.0.1:6379", redis.DialUsername("app"), redis.DialPassword("secret")),
		redlock.NewNode("rediss://app:secret@10.0.0.2:6380/2", redis.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS13})),
		redlock.NewNode("unix:///run/redis.sock"),
	} {
		fmt.Println(node.Name)
	}
	// Output:
	// 10.0.0.1:6379
	// 10.0.0.2:6380/2
	// /run/redis.sock
}

// Credentials that change are looked up for each new connection.
func ExamplePoolFunc() {
	pool := redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
		password, err := os.ReadFile("/run/secrets/redis")
		if err != nil {
			return nil, err
		}
		return redis.DialContext(ctx, "tcp", "10.0.0.1:6379", redis.DialPassword(string(password)))
	})
	_, err := redlock.New([]redlock.Node{{Name: "eu-1", Pool: pool}})
	fmt.Println(err)
	// Output: <nil>
}

// Locks in database 3. A connection of the pool to another one would be refused.
func ExampleInDatabase() {
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", "10.0.0.1:6379", redis.DialDatabase(3))
	}}
	_, err := redlock.New([]redlock.Node{{Name: "eu-1", Pool: redlock.InDatabase(pool, 3)}})
	fmt.Println(err)
	// Output: <nil>
}

// Close lets releases that are on their way finish. A process that ends without it cuts them off.
func ExampleRedlock_Close() {
	r := cluster.NewRedlock()
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println(r.Close(limited))

	_, err := r.TryLock(ctx, []string{"closing"}, 10*time.Second)
	fmt.Println(err)
	// Output:
	// <nil>
	// redlock: lock ["closing"]: the Redlock is closed
}

// printer is a tracer that prints how calls begin and end. Package otelredlock has one that makes
// traces and metrics.
type printer struct{}

func (printer) Begin(ctx context.Context, op redlock.Op, resources []string) context.Context {
	fmt.Println(op, "begins:", resources)
	return ctx // Or one with a span.
}

func (printer) End(_ context.Context, e redlock.Event) {
	fmt.Println(e.Op, "ends") // After e.Took, with e.Err.
}

func (printer) Wants(context.Context, redlock.EventKind) bool { return false }

func (printer) Event(context.Context, redlock.Event) {}

func ExampleWithTracer() {
	r := cluster.NewRedlock(redlock.WithTracer(printer{}))
	lock := locked(r, "traced")
	_ = lock.Unlock(ctx)
	// Output:
	// lock begins: [traced]
	// lock ends
	// unlock begins: [traced]
	// unlock ends
}
