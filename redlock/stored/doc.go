// Package stored reads what a node stores of a [redlock.Redlock], for programs that look at the nodes on connections of
// their own: a tool for operators, an exporter, a script that cleans up. Programs that lock do not need it:
// [redlock.Redlock.Inspect] says who holds a resource.
//
// The key of a lock is the prefix and the resource, and its value is the lock's token. All that the library keeps
// besides has [Reserved] in its key. docs/algorithm.md lists the keys.
//
//	value, err := redis.String(conn.Do("GET", "locks:"+"account:42"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	if stored.CheckToken(value) != nil {
//		log.Fatal("another library's lock, or no lock at all")
//	}
//	fmt.Println("held by", stored.Owner(value))
//
// Whoever has a token can release its lock: show its [Holder] and [Owner] instead.
//
// A program should only read what is stored. Of [redlock.Redlock.Release] those that wait hear; of a DEL they do not.
package stored
