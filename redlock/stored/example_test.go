package stored_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/redlock/stored"
	"github.com/seed6c881748/redlock/test/testkit"
)

var ctx = context.Background()

// node returns one node in memory, and a Redlock over it. end ends both.
func node(opts ...redlock.Option) (conn redis.Conn, r *redlock.Redlock, end func()) {
	tb := new(testkit.ExampleTB)
	c := redlocktest.New(tb, 1, append(opts, redlock.WithNodeTimeout(10*time.Second))...)
	conn, err := c.Nodes()[0].Pool.GetContext(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return conn, c.Redlock, func() { _ = conn.Close(); tb.End() }
}

// Who holds a resource, as one node knows it. doc.go has the same.
func Example() {
	conn, r, end := node(redlock.WithPrefix("locks:"), redlock.WithOwner("worker-7"))
	defer end()
	lock, err := r.Lock(ctx, []string{"account:42"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	value, err := redis.String(conn.Do("GET", "locks:"+"account:42"))
	if err != nil {
		log.Fatal(err)
	}
	if stored.CheckToken(value) != nil {
		log.Fatal("another library's lock, or no lock at all")
	}
	fmt.Println("held by", stored.Owner(value))
	// Output: held by worker-7
}

// Another library has the first key. The holder that a value stands for is that of the lock, and may be shown.
func ExampleCheckToken() {
	fmt.Println(stored.CheckToken("secret"))
	token := "0123456789abcdef0123456789abcdef owner=worker-7"
	fmt.Println(stored.CheckToken(token), stored.Owner(token), stored.Holder(token))
	// Output:
	// redlock: malformed token of 6 bytes: want 32 hexadecimal digits, and behind them the owner's label, if it has one
	// <nil> worker-7 b0fef2a210c8
}

// What a node stores of a lock, and of those who wait for it.
func ExampleKeys() {
	conn, r, end := node(redlock.WithFencing(), redlock.WithQuarantine(30*time.Second))
	defer end()
	if err := r.Admit(ctx, "node1"); err != nil {
		log.Fatal(err)
	}
	lock, err := r.Lock(ctx, []string{"account:42"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	k := stored.Keys{}
	value, _ := redis.String(conn.Do("GET", k.Lock("account:42")))
	fmt.Println("the token:", value == lock.Token())
	counter, _ := redis.Int64(conn.Do("GET", k.Counter("account:42")))
	fmt.Println("the last fence:", counter == lock.Fence())
	waiting, _ := redis.Int(conn.Do("ZCARD", k.Line("account:42")))
	fmt.Println("processes that wait:", waiting)
	marker, _ := redis.String(conn.Do("GET", k.Marker()))
	fmt.Println("what it is set up for:", stored.ParseMarker(marker))
	name, args := k.NotesCommand()
	notes, _ := redis.String(conn.Do(name, args...)) // Nothing where it is not allowed.
	fmt.Println("clients with other nodes:", stored.SetDifferences("", []string{"node1"}, []string{notes}))
	// Output:
	// the token: true
	// the last fence: true
	// processes that wait: 0
	// what it is set up for: clients with 1 node and a longest ttl of 30s
	// clients with other nodes: []
}

// Which keys of a SCAN are locks.
func ExampleKeys_Resource() {
	k := stored.Keys{Prefix: "locks:"}
	for _, key := range []string{"locks:account:42", k.Counter("account:42"), "session:9"} {
		resource, ok := k.Resource(key)
		fmt.Printf("%q %t\n", resource, ok)
	}
	// Output:
	// "account:42" true
	// "" false
	// "" false
}

// Channels are long; what is behind the mark tells them apart.
func ExampleKeys_Waiter() {
	fmt.Println(stored.Keys{Prefix: "locks:"}.Waiter("locks:" + stored.Reserved + "c:0123456789abcdef"))
	// Output: 0123456789abcdef
}

// A fourth node is being added. Clients with four nodes have come, those with five have not, and may not.
func ExampleParseMarker() {
	m := stored.ParseMarker("6e1b9f votes 3 30000 1700000000000 4")
	fmt.Println(m.Run, m.Votes, m.Nodes, m.Other, m.MaxTTL)
	fmt.Println(m)
	fmt.Println(m.Knows(4), m.Knows(5), m.Fits(5))
	// Output:
	// 6e1b9f true 3 4 30s
	// clients with 3 or 4 nodes and a longest ttl of 30s
	// true false false
}

// Another client of a has c, where this one has b.
func ExampleSetDifferences() {
	answers := []string{
		`5a 900 1700000000000 false
700 {"who":"worker-7","servers":[{"name":"a","run":"5a","started":900000000000,"confirmed":1000000000},{"name":"c","run":"5c","started":900000000000,"confirmed":1000000000}]}`,
		"5b 900 1700000000000 false",
	}
	for _, d := range stored.SetDifferences("", []string{"a", "b"}, answers) {
		fmt.Println(d.Who, d.Node, d.OnlyHere, d.OnlyThere, d.QuorumsMeet)
	}
	// Output: worker-7 a [b] [c] true
}
