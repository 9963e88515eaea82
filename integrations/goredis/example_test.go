package redlockgoredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	redlockgoredis "github.com/seed6c881748/redlock/integrations/goredis"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

func ExampleNode() {
	var nodes []redlock.Node
	for _, addr := range nodetest.Addrs() { // Of independent masters.
		client := redis.NewClient(&redis.Options{Addr: addr}) // The service has it already.
		defer func() { _ = client.Close() }()
		nodes = append(nodes, redlockgoredis.Node(client))
	}
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(context.Background())

	lock, err := r.TryLock(context.Background(), []string{"account:42"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody else works on", lock.Resources())
	// Output: nobody else works on [account:42]
}
