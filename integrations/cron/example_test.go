package redlockcron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	redlockcron "github.com/seed6c881748/redlock/integrations/cron"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
)

// Three Crons, as those of three processes, have the same job. One of them runs it at each tick.
func Example() {
	r, end := connect()
	defer end()
	locker, err := redlockcron.NewLocker(r, cron.DefaultLogger, 30*time.Second, 900*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}

	sent := make(chan string, 3)
	for range 3 {
		c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC)) // The same place everywhere.
		_, err := c.AddJob("* * * * * *", locker.Func("report", func(ctx context.Context) error {
			sent <- "the report is sent" // What takes long stops when ctx ends.
			return nil
		}))
		if err != nil {
			log.Fatal(err)
		}
		c.Start()
		defer func() { <-c.Stop().Done() }() // Before the Redlock is closed.
	}
	fmt.Println(<-sent)
	// Output: the report is sent
}

// connect returns a Redlock on three servers in memory.
var connect = nodetest.Example
