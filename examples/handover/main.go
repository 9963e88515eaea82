// Handover takes a lock in one process and releases it in another: an API takes it and
// answers at once, the worker that does the job releases it at the end:
//
//	go run ./examples/handover
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// ttl is longer than any job may take, as nobody extends a lock that was handed on.
const ttl = 30 * time.Second

var errBusy = errors.New("this user's report is being made already")

// A job is what the API puts into a queue that only the workers can read: whoever has the
// token can release the lock.
type job struct {
	User  string
	Token string
	Until time.Time // when the lock ends; clocks differ, so keep away from it
}

// request is what the API does: it takes the lock, and the handle ends here. It is not
// unlocked, extended or kept alive any more. r may be closed at any time: that does not
// release the lock.
func request(ctx context.Context, r *redlock.Redlock, user string) (job, error) {
	l, err := r.TryLock(ctx, []string{"report/" + user}, ttl)
	if errors.Is(err, redlock.ErrTaken) {
		return job{}, errBusy
	}
	if err != nil {
		return job{}, err
	}
	return job{User: user, Token: l.Token(), Until: l.Until()}, nil
}

// perform is what a worker does with a job, which its queue may deliver more than once.
func perform(ctx context.Context, r *redlock.Redlock, j job, work func(ctx context.Context) error) error {
	const margin = time.Second
	limited, cancel := context.WithDeadline(ctx, j.Until.Add(-margin))
	defer cancel()
	err := work(limited)
	// The result is known, so the lock goes, also if the job has failed. ErrNoQuorum: nodes
	// that come back are told in the background, and the keys end with their ttl anyway.
	// ErrLost: the lock had ended, or an earlier delivery of this job has released it.
	released := r.Release(ctx, []string{"report/" + j.User}, j.Token)
	if errors.Is(released, redlock.ErrLost) {
		return errors.Join(err, fmt.Errorf("somebody else may have done the job meanwhile: %w", released))
	}
	return err
}

func main() { stage.Main(tell) }

func tell(ctx context.Context, s *stage.Stage) {
	api, worker := s.Client(redlock.WithOwner("api-1")), s.Client()
	j := stage.Got(request(ctx, api, "ada"))
	s.Say("The API has taken Ada's lock for %v, and put her job into the queue.", ttl)
	_, err := request(ctx, api, "ada")
	stage.Check(errors.Is(err, errBusy), "a second request should be refused: %w", err)
	s.Say("A second request is answered: %v.", err)
	stage.Must(api.Close(ctx))
	s.Say("The API's process ends. The lock is still there.")
	s.Kill(2)
	s.Say("Two of five nodes are dead now.")
	stage.Must(perform(ctx, worker, j, func(ctx context.Context) error { return stage.Sleep(ctx, 200*time.Millisecond) }))
	s.Say("A worker has done the job and released the lock.")
	next := stage.Got(request(ctx, worker, "ada"))
	s.Say("Ada's next request gets the lock at once.")
	nothing := func(context.Context) error { return nil }
	err = perform(ctx, worker, j, nothing)
	stage.Check(errors.Is(err, redlock.ErrLost), "a job that is delivered twice should find the lock gone: %w", err)
	s.Say("The queue has delivered the first job once more: the worker hears that its lock is gone.")
	stage.Must(perform(ctx, worker, next, nothing))
	s.Say("That has not released the second lock, which its own job does.")
}
