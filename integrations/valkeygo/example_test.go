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

func ExampleNode() {
	var nodes []redlock.Node
	for _, addr := range nodetest.Addrs() { // Of independent masters.
		nodes = append(nodes, redlockvalkeygo.Node(valkey.ClientOption{InitAddress: []string{addr}}))
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
