// Package conn is one connection to a Redis server: redigo's, made abortable from any
// goroutine, bounded in what it reads, batched in what it writes, and got from a pool
// that may do anything. It knows addresses, databases, errors of servers and the limits of
// replies. It does not know scripts, tokens or locks, nor that there are several servers.
package conn
