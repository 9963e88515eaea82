package redlockvalkeygo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	redlockvalkeygo "github.com/seed6c881748/redlock/integrations/valkeygo"
	"github.com/seed6c881748/redlock/redlock"
)

var addrs = nodetest.Addrs() // Of independent masters.

func ExampleNode() {
	var nodes []redlock.Node
	for _, addr := range addrs {
		nodes = append(nodes, redlockvalkeygo.Node(valkey.ClientOption{InitAddress: []string{addr}}))
	}
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = r.Close(ctx) }()

	err = r.Do(ctx, []string{"account:42"}, 10*time.Second, func(_ context.Context, lock *redlock.Lock) error {
		fmt.Println("nobody else works on", lock.Resources())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on [account:42]
}
