// Shutdown ends a process that holds locks in good order, as when Kubernetes tells
// it to end and gives it 30 s:
//
//	go run ./examples/shutdown
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

const (
	// ttl gives the work at least about two thirds of it to wind down.
	ttl = 30 * time.Second

	// grace is less than terminationGracePeriodSeconds, 30 by default, which begins
	// with the preStop hook and ends with SIGKILL.
	grace = 25 * time.Second
)

// serve runs jobs until stop ends (by SIGTERM), and brings them to an end. When it
// has returned nil, the process may exit: no node that can be reached has a key of
// its locks.
func serve(stop context.Context, r *redlock.Redlock, jobs ...func(ctx context.Context) error) error {
	// The jobs do not get stop: Close tells them, and they may still need a context
	// that works.
	ctx := context.WithoutCancel(stop)
	ended := make(chan error, len(jobs))
	for _, job := range jobs {
		go func() { ended <- job(ctx) }()
	}
	<-stop.Done()
	// Whatever else brings in work ends here, too: http.Server.Shutdown, consumers.

	graceful, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// Close refuses new locks, ends waits for one, and ends the contexts of Do and
	// KeepAlive with ErrClosed. Then it waits until their locks are released, and until
	// releases that go on in the background have arrived. If that takes too long, what is
	// left ends with its ttl.
	err := r.Close(graceful)
	for range jobs {
		select {
		case jobErr := <-ended:
			err = errors.Join(err, jobErr)
		case <-graceful.Done():
			return errors.Join(err, errors.New("a job did not end in time"))
		}
	}
	return err
}

// job works under a lock, whenever it gets it, until the Redlock is closed.
func job(ctx context.Context, r *redlock.Redlock, resource string, step, windDown func(ctx context.Context) error) error {
	for {
		err := r.Do(ctx, []string{resource}, ttl, func(ctx context.Context, lock *redlock.Lock) error {
			for ctx.Err() == nil {
				if err := step(ctx); err != nil && ctx.Err() == nil {
					return err
				}
			}
			if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrClosed) {
				return cause // The lock is lost: nothing may be done any more.
			}
			// The lock is still held, but not extended any more: until Until there is time
			// to store what has been done.
			ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), lock.Until())
			defer cancel()
			return windDown(ctx)
		}, redlock.WithRetryCount(-1))
		switch {
		case errors.Is(err, redlock.ErrClosed):
			return nil
		case err != nil && !errors.Is(err, redlock.ErrLost):
			return err
		}
		// Otherwise it begins again. After Close, Do returns ErrClosed at once.
	}
}

func main() {
	stage.Main(func(ctx context.Context, s *stage.Stage) {
		// This is all it takes in a main function.
		stop, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer cancel()
		tell(ctx, s, stop, func() {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Signal(syscall.SIGTERM)
			}
			if err != nil {
				cancel() // Windows has no signals.
			}
		})
	})
}

// tell serves until stop ends, for which it calls terminate.
//
//nolint:revive // There are two contexts.
func tell(ctx context.Context, s *stage.Stage, stop context.Context, terminate func()) {
	r := s.Client()
	// Two jobs that run, and one that waits for the lock of another process.
	names := []string{"reports", "mails", "backup"}
	theirs := stage.Got(s.Client().Lock(ctx, names[2:], ttl))
	s.Say("Two jobs work, and a third one waits for a lock. Their ttl is %v.", ttl)
	var started sync.WaitGroup
	started.Add(2)
	jobs := make([]func(context.Context) error, len(names))
	for i, name := range names {
		first := sync.OnceFunc(started.Done)
		step := func(ctx context.Context) error {
			first()
			return stage.Sleep(ctx, 50*time.Millisecond)
		}
		windDown := func(ctx context.Context) error {
			s.Say("    %s winds down, and has %v for it.", name, time.Until(deadline(ctx)).Round(time.Second))
			return stage.Sleep(ctx, 300*time.Millisecond)
		}
		jobs[i] = func(ctx context.Context) error {
			defer s.Say("    %s has ended.", name)
			return job(ctx, r, name, step, windDown)
		}
	}
	go func() {
		started.Wait()
		s.Say("The process gets SIGTERM.")
		terminate()
	}()
	stage.Must(serve(stop, r, jobs...))
	for _, name := range names[:2] {
		holding := s.Holding(name)
		stage.Check(holding == 0, "%q is still held on %d of the nodes", name, holding)
	}
	s.Say("All jobs have ended, and no node has a key of them. The process exits.")
	stage.Must(theirs.Unlock(ctx))
}

func deadline(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}
