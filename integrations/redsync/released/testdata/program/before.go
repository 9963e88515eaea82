// Accounts closes the day's accounts, on whichever machine comes first.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func newLocks(addrs []string) (rs *redsync.Redsync, end func(), err error) {
	var pools []redis.Pool
	for _, addr := range addrs {
		client := goredislib.NewClient(&goredislib.Options{Addr: addr})
		pools = append(pools, goredis.NewPool(client))
	}
	return redsync.New(pools...), func() {}, nil
}

func main() {
	log.SetFlags(0)
	rs, end, err := newLocks(strings.Fields(os.Getenv("REDIS_ADDRS")))
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	closeAccount(rs, "42")
	if err := importOnce(ctx, rs, "rates.csv"); err != nil {
		log.Print(err)
	}
	if err := rebuild(ctx, rs, 3); err != nil {
		log.Print(err)
	}
	value, err := begin(rs)
	if err != nil {
		log.Print(err)
		return
	}
	finish(rs, value)
}

// closeAccount waits for its turn, as redsync's README does.
func closeAccount(rs *redsync.Redsync, id string) {
	mutex := rs.NewMutex("account:" + id)
	if err := mutex.Lock(); err != nil {
		panic(err)
	}
	fmt.Println("closed", mutex.Name())
	if ok, err := mutex.Unlock(); !ok || err != nil {
		panic("unlock failed")
	}
}

// importOnce leaves the work to whoever has it.
func importOnce(ctx context.Context, rs *redsync.Redsync, file string) error {
	first, second := rs.NewMutex("import:"+file), rs.NewMutex("import:"+file)
	if err := first.TryLockContext(ctx); err != nil {
		return err
	}
	defer first.UnlockContext(ctx)
	err := second.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	switch {
	case errors.As(err, &taken):
		fmt.Println("somebody else imports", file)
		return nil
	case errors.Is(err, redsync.ErrFailed):
		return errors.New("too late")
	default:
		return err
	}
}

// rebuild takes longer than the expiry, so it extends between its steps.
func rebuild(ctx context.Context, rs *redsync.Redsync, steps int) error {
	mutex := rs.NewMutex("index", redsync.WithExpiry(20*time.Second), redsync.WithTries(5),
		redsync.WithRetryDelay(100*time.Millisecond), redsync.WithFailFast(true))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(ctx)
	for step := range steps {
		if ok, err := mutex.ExtendContext(ctx); !ok || err != nil {
			return fmt.Errorf("lost at step %d: %w", step, err)
		}
		fmt.Println("step", step, time.Until(mutex.Until()) > 15*time.Second)
	}
	return nil
}

// begin locks, and finish unlocks, perhaps in another process.
func begin(rs *redsync.Redsync) (value string, err error) {
	mutex := rs.NewMutex("report")
	err = mutex.Lock()
	return mutex.Value(), err
}

func finish(rs *redsync.Redsync, value string) {
	mutex := rs.NewMutex("report", redsync.WithValue(value))
	if ok, err := mutex.Unlock(); !ok || err != nil {
		log.Printf("the report was not ours to the end: %v", err)
		return
	}
	fmt.Println("reported")
}
