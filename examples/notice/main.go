// Notice sends a notice once per tick from several containers, of which each has
// a timer of its own:
//
//	go run ./examples/notice
package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// sendOnce is called by every container at every tick, and says whether it was
// this one that sent.
//
// It sends at most once per tick: if the sender dies in the middle, nobody takes
// over before the next tick.
func sendOnce(ctx context.Context, r *redlock.Redlock, tick, hold, wait time.Duration, send func(context.Context) error) (sent bool, err error) {
	// Lock with a wait, not TryLock: the container that comes first may get no lock in
	// the end, as it stands still for longer than the node timeout. If the others had
	// given up by then, nobody would send.
	//
	// The ttl is how long sending may take. It is shorter than the tick, so that a
	// container that dies does not cost the next notice as well.
	//
	// Without the min hold, a container whose timer is late would find the lock free
	// again and send a second time. It must be longer than the wait and the distance
	// of the timers together, and with that distance still be shorter than the tick.
	end := time.Now().Add(wait)
	waiting, stop := context.WithDeadline(ctx, end)
	defer stop()
	lock, err := r.Lock(waiting, []string{"notice:daily"}, tick*3/4, redlock.WithMinHold(hold), redlock.WithRetryCount(-1))
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return false, nil // This is how it should be, for all containers but one.
	case err != nil:
		return false, err // Without a quorum nobody sends.
	case !time.Now().Before(end):
		// This container has stood still while it got the lock. By now another one may
		// have sent, and its min hold be over.
		return false, lock.Unlock(ctx)
	}
	// Unlock leaves the keys for the rest of the min hold. If it fails, they end with
	// the ttl.
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()

	// Nothing extends this lock, so sending must end when it does.
	ctx, cancel := context.WithDeadline(ctx, lock.Until())
	defer cancel()
	if err := send(ctx); err != nil {
		return false, err
	}
	return true, nil
}

func main() { stage.Main(tell) }

const (
	tick  = time.Second
	hold  = tick / 2
	wait  = tick / 5
	ticks = 3

	containers = 3
)

func tell(ctx context.Context, s *stage.Stage) {
	clients := s.Clients(containers)
	s.Say("%d containers are to send a notice once per tick. Their timers are up to %v apart.", containers, tick/5)
	s.Say("Without a min hold:")
	play(ctx, s, clients, 0, 1)
	s.Say("With a min hold of %v, and a wait of %v:", hold, wait)
	for i, n := range play(ctx, s, clients, hold, ticks) {
		stage.Check(n < 2, "%d notices at tick %d", n, i+1)
	}
}

// play returns how many notices were sent at each tick. A tick at which the
// machine stood still for so long that the lock may have come free, or that no node
// has answered within the wait, is not counted.
func play(ctx context.Context, s *stage.Stage, clients []*redlock.Redlock, hold time.Duration, ticks int) (sent []int) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 1; n <= ticks; n++ {
		<-ticker.C
		start := time.Now()
		var count atomic.Int64
		busy := false
		errs := stage.Together(len(clients), func(i int) error {
			if err := stage.Sleep(ctx, time.Duration(i)*tick/10); err != nil {
				return err
			}
			if hold > 0 && time.Since(start) >= hold-wait {
				return context.DeadlineExceeded
			}
			_, err := sendOnce(ctx, clients[i], tick, hold, wait, func(context.Context) error {
				count.Add(1)
				s.Say("    tick %d: container %d sends the notice.", n, i+1)
				return nil
			})
			return err
		})
		for _, err := range errs {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				busy = true
				continue
			}
			stage.Must(err)
		}
		if busy {
			s.Say("    tick %d does not count: this machine is too busy for such short times.", n)
			continue
		}
		sent = append(sent, int(count.Load()))
	}
	return sent
}
