package redlockgocron_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	redlockgocron "github.com/seed6c881748/redlock/integrations/gocron"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
)

// Three schedulers, as those of three processes, have the same job at the same time. One runs it.
func Example() {
	r, end := connect()
	defer end()
	locker, err := redlockgocron.NewLocker(r, 30*time.Second, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	var asked sync.WaitGroup
	for range 3 {
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = s.Shutdown() }() // Before the Redlock is closed.
		asked.Add(1)
		_, err = s.NewJob(
			gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() {
				fmt.Println("the report is sent")
				asked.Done()
			}),
			gocron.WithName("report"), // The same in all processes: it is what is locked.
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, _ error) { asked.Done() })),
		)
		if err != nil {
			log.Fatal(err)
		}
		s.Start()
	}
	asked.Wait()
	// Output: the report is sent
}

// One process runs all jobs, until it ends.
func ExampleNewElector() {
	r, end := connect()
	defer end()
	elector, err := redlockgocron.NewElector(r, "reports", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer elector.Close(context.Background()) // After the scheduler's Shutdown, before the Redlock's Close.

	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Shutdown() }()
	sent := make(chan string, 1)
	_, err = s.NewJob(
		gocron.DurationJob(10*time.Millisecond),
		gocron.NewTask(func() {
			select {
			case sent <- "the report is sent":
			default:
			}
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	fmt.Println(<-sent)
	// Output: the report is sent
}

// connect returns a Redlock on three servers in memory.
var connect = nodetest.Example
