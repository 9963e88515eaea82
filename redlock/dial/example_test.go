package dial_test

import (
	"context"
	"fmt"
	"net"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/dial"
)

// A node for each server that another library knows. doc.go has the same.
func Example() {
	node := dial.Server{
		Address: "10.0.0.1:6379",
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", "10.0.0.1:6379")
		},
		Credentials: func(context.Context, net.Addr) (user, password string, err error) {
			return "locks", "secret", nil
		},
	}.Node()

	fmt.Println(node)
	// Output: 10.0.0.1:6379
}

// What redlock cannot use safely, New refuses.
func ExampleRefused() {
	node := dial.Refused("sentinel:26379", "a replica may lack the latest locks")
	_, err := redlock.New([]redlock.Node{node})
	fmt.Println(err)
	// Output: redlock: node 1 of 1: sentinel:26379 is not supported: a replica may lack the latest locks
}
