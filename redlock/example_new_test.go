package redlock_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
)

// Nothing is dialled before the first lock.
func ExampleNew() {
	r, err := redlock.New([]redlock.Node{
		redlock.NewNode("10.0.0.1:6379"),
		redlock.NewNode("10.0.0.2:6379"),
		redlock.NewNode("10.0.0.3:6379"),
	}, redlock.WithOwner("worker-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	fmt.Println(len(r.Stats().Nodes), "nodes")
	// Output: 3 nodes
}

// An error names what is wrong.
func ExampleNew_invalid() {
	_, err := redlock.New([]redlock.Node{redlock.NewNode("10.0.0.1")})
	fmt.Println(err)

	_, err = redlock.New(nodes, redlock.WithDriftFactor(1))
	fmt.Println(err)
	// Output:
	// redlock: node 0: malformed address "10.0.0.1": want host:port, such as localhost:6379
	// redlock: drift factor 1: must be at least 0 and below 1
}

// The name of a node, which is in errors and events, has no credentials.
func ExampleNewNode() {
	for _, node := range []redlock.Node{
		redlock.NewNode("10.0.0.1:6379", redis.DialUsername("app"), redis.DialPassword("secret")),
		redlock.NewNode("rediss://app:secret@10.0.0.2:6380/2", redis.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS13})),
		redlock.NewNode("unix:///run/redis.sock"),
	} {
		fmt.Println(node.Name)
	}
	// Output:
	// 10.0.0.1:6379
	// 10.0.0.2:6380/2
	// /run/redis.sock
}

// A node with a pool of your own.
func ExampleNode() {
	pool := &redis.Pool{
		MaxIdle: 2,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", "10.0.0.1:6379")
		},
	}
	r, err := redlock.New([]redlock.Node{{Name: "eu-1", Pool: pool}})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx) // Gives the pool its connections back.
	fmt.Println(r.Stats().Nodes[0].Node)
	// Output: eu-1
}

// Credentials that change are looked up for each new connection.
func ExamplePoolFunc() {
	pool := redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
		password, err := os.ReadFile("/run/secrets/redis")
		if err != nil {
			return nil, err
		}
		return redis.DialContext(ctx, "tcp", "10.0.0.1:6379", redis.DialPassword(string(password)))
	})
	r, err := redlock.New([]redlock.Node{{Name: "eu-1", Pool: pool}})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	fmt.Println(r.Stats().Nodes[0].Node)
	// Output: eu-1
}

// Locks in database 3. A connection of the pool to another one would be refused.
func ExampleInDatabase() {
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", "10.0.0.1:6379", redis.DialDatabase(3))
	}}
	r, err := redlock.New([]redlock.Node{{Name: "eu-1", Pool: redlock.InDatabase(pool, 3)}})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	fmt.Println(r.Stats().Nodes[0].Node)
	// Output: eu-1
}

// Close lets releases that are on their way finish. A process that ends without it cuts them off.
func ExampleRedlock_Close() {
	r, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	err = r.Do(ctx, []string{"closing"}, 10*time.Second, func(context.Context, *redlock.Lock) error { return nil })
	fmt.Println(err)

	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println(r.Close(limited))

	_, err = r.TryLock(ctx, []string{"closing"}, 10*time.Second)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// redlock: lock ["closing"]: the Redlock is closed
}
