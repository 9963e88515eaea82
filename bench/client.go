package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
)

type (
	client  = libraries.Client
	library = libraries.Library
	worker  = libraries.Worker
	opening = libraries.Opening
)

// compared are the libraries that are compared, in the order of the tables. The first one is what
// the others are compared with.
var compared = slices.Concat([]library{libraries.Redlock}, libraries.Redsync,
	[]library{libraries.Redislock, libraries.Rueidislock, etcdLibrary, floorLibrary})

func libraryNames() []string {
	names := make([]string, len(compared))
	for i, l := range compared {
		names[i] = l.Name
	}
	return names
}

// pick returns the libraries with these names, all if there are none.
func pick(names []string) []library {
	if len(names) == 0 {
		return compared
	}
	return slices.DeleteFunc(slices.Clone(compared), func(l library) bool { return !slices.Contains(names, l.Name) })
}

// applicable returns those of the libraries that can lock on so many nodes, and the names
// of the others.
func applicable(some []library, nodes int) (these []library, others []string) {
	for _, l := range some {
		if l.Servers == libraries.OneNode && nodes != 1 {
			others = append(others, l.Name)
			continue
		}
		these = append(these, l)
	}
	return these, others
}

// openAll opens a client of each library. The caller closes them with closeClients.
func openAll(some []library, o opening) (clients []client, err error) {
	for _, l := range some {
		c, err := l.Open(o)
		if err != nil {
			closeClients(clients)
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func closeClients(clients []client) {
	for _, c := range clients {
		c.Close()
	}
}

// newClients opens clients of the libraries with these names, all if there are none, that
// can lock on these nodes.
func newClients(addrs []string, ttl time.Duration, goroutines int, only ...string) ([]client, error) {
	these, _ := applicable(pick(only), len(addrs))
	return openAll(these, on(addrs, ttl, goroutines))
}

// on is for clients that so many goroutines use. With fail-fast a goroutine goes on while
// the slower nodes still work on its earlier calls, so it may use several connections.
// Nobody dials while it is measured: a goroutine that finds no connection waits for one.
func on(addrs []string, ttl time.Duration, goroutines int) opening {
	return opening{Addrs: addrs, TTL: ttl, Connections: min(4*goroutines+16, libraries.MaxPool)}
}

// newRedsync returns redsync on redigo, with a connection for everybody who may want one.
func newRedsync(addrs []string, ttl time.Duration, goroutines int) (client, error) {
	return libraries.RedsyncOn("redigo").Open(opening{Addrs: addrs, TTL: ttl, Connections: 4*goroutines + 16})
}
