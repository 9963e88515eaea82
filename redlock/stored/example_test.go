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

// Another library has this key.
func ExampleCheckToken() {
	fmt.Println(stored.CheckToken("secret"))
	fmt.Println(stored.CheckToken("0123456789abcdef0123456789abcdef owner=worker-7"))
	// Output:
	// redlock: malformed token of 6 bytes: want 32 hexadecimal digits, and behind them the owner's label, if it has one
	// <nil>
}

// The holder that a value stands for is that of the lock, and may be shown.
func ExampleHolder() {
	conn, r, end := node()
	defer end()
	lock, err := r.Lock(ctx, []string{"account:42"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	value, err := redis.String(conn.Do("GET", stored.Keys{}.Lock("account:42")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(value == lock.Token(), stored.Holder(value) == lock.Holder())
	// Output: true true
}

// The label behind the random part of a token.
func ExampleOwner() {
	fmt.Printf("%q\n", stored.Owner("0123456789abcdef0123456789abcdef owner=worker-7"))
	fmt.Printf("%q\n", stored.Owner("secret owner=worker-7"))
	// Output:
	// "worker-7"
	// ""
}

// The key whose value is the token.
func ExampleKeys_Lock() {
	fmt.Println(stored.Keys{Prefix: "locks:"}.Lock("account:42"))
	// Output: locks:account:42
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

// How many processes wait for a resource.
func ExampleKeys_Line() {
	conn, _, end := node()
	defer end()
	fmt.Println(redis.Int(conn.Do("ZCARD", stored.Keys{}.Line("account:42"))))
	// Output: 0 <nil>
}

// Channels are long; what is behind the mark tells them apart.
func ExampleKeys_Waiter() {
	fmt.Println(stored.Keys{Prefix: "locks:"}.Waiter("locks:" + stored.Reserved + "c:0123456789abcdef"))
	// Output: 0123456789abcdef
}

// The last fence of a resource.
func ExampleKeys_Counter() {
	conn, r, end := node(redlock.WithFencing())
	defer end()
	lock, err := r.Lock(ctx, []string{"account:42"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	counter, err := redis.Int64(conn.Do("GET", stored.Keys{}.Counter("account:42")))
	fmt.Println(counter == lock.Fence(), err)
	// Output: true <nil>
}

// What a node is set up for.
func ExampleKeys_Marker() {
	conn, r, end := node(redlock.WithQuarantine(30 * time.Second))
	defer end()
	if err := r.Admit(ctx, "node1"); err != nil {
		log.Fatal(err)
	}
	value, err := redis.String(conn.Do("GET", stored.Keys{}.Marker()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.ParseMarker(value))
	// Output: clients with 1 node and a longest ttl of 30s
}

// A fourth node is being added.
func ExampleParseMarker() {
	m := stored.ParseMarker("6e1b9f votes 3 30000 1700000000000 4")
	fmt.Println(m.Run, m.Votes, m.Nodes, m.Other, m.MaxTTL)
	fmt.Println(m)
	// Output:
	// 6e1b9f true 3 4 30s
	// clients with 3 or 4 nodes and a longest ttl of 30s
}

// Clients with four nodes have come, those with five have not.
func ExampleMarker_Knows() {
	m := stored.Marker{Nodes: 3, Other: 4}
	fmt.Println(m.Knows(4), m.Knows(5))
	// Output: true false
}

// As no client has come with another number than three, one node more or less will do.
func ExampleMarker_Fits() {
	m := stored.Marker{Nodes: 3}
	fmt.Println(m.Fits(2), m.Fits(3), m.Fits(4), m.Fits(5))
	// Output: true true true false
}

// Which other clients of a node were given other nodes.
func ExampleKeys_NotesCommand() {
	conn, _, end := node()
	defer end()
	name, args := stored.Keys{}.NotesCommand()
	answer, _ := redis.String(conn.Do(name, args...)) // Nothing where it is not allowed.
	fmt.Println(stored.SetDifferences("", []string{"node1"}, []string{answer}))
	// Output: []
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
