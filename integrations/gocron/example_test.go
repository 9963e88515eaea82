package redlockgocron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	redlockgocron "github.com/seed6c881748/redlock/integrations/gocron"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
)

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
