package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/test/tables"
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
	[]library{libraries.Redislock, libraries.Rueidislock})

// applicable returns those of the libraries that can lock on so many nodes.
func applicable(some []library, nodes int) []library {
	return slices.DeleteFunc(slices.Clone(some), func(l library) bool {
		return l.OneNode && nodes != 1
	})
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

// on is for clients that so many goroutines use. With fail-fast a goroutine goes on while
// the slower nodes still work on its earlier calls, so it may use several connections.
// Nobody dials while it is measured: a goroutine that finds no connection waits for one.
func on(addrs []string, ttl time.Duration, goroutines int) opening {
	return opening{Addrs: addrs, TTL: ttl, Connections: min(4*goroutines+16, libraries.MaxPool)}
}

// listLibraries is the part that tells how the libraries are set up.
func listLibraries(s settings, out *section) error {
	versions := moduleVersions()
	t := tables.New(fmt.Sprintf("One attempt for each lock, ttl %v", s.ttl), "client", "built with", "set up")
	for _, l := range append(slices.Clone(compared), libraries.Fenced) {
		var built []string
		for _, m := range l.Modules {
			built = append(built, strings.TrimSpace(m+" "+versions[m]))
		}
		t.Add(l.Name, strings.Join(built, ", "), l.Setup)
	}
	return out.table(t)
}
