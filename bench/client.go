package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A client is one library in one configuration, connected to its servers.
type client struct {
	name      string
	newWorker func() worker
	close     func()

	// serverCPU is the processor time of servers that the library does not share
	// with the others. It is nil if the library uses the nodes.
	serverCPU func() time.Duration
}

// A worker locks and unlocks for one goroutine.
type worker interface {
	lock(ctx context.Context, key string) error
	unlock(ctx context.Context) error
}

// An extender is a worker whose library extends a lock on request.
type extender interface {
	worker
	extend(ctx context.Context) error
}

// An opening is what a client is made for.
type opening struct {
	addrs      []string
	ttl        time.Duration
	goroutines int
}

// servers says which servers a library can lock on.
type servers int

const (
	anyNodes  servers = iota // a quorum of any number of nodes
	oneNode                  // a single node only
	elsewhere                // servers of its own, whatever the number of nodes
)

// A library is one of those that are compared, in one configuration.
type library struct {
	name    string
	modules []string // whose versions matter, by path
	setup   string   // the configuration, in words
	servers servers
	open    func(name string, o opening) (client, error)
}

// libraries are all of them, in the order of the tables. The first one is what the
// others are compared with.
var libraries = slices.Concat(
	[]library{redlockLibrary}, redsyncLibraries, []library{redislockLibrary, rueidislockLibrary, etcdLibrary, floorLibrary})

func libraryNames() []string {
	names := make([]string, len(libraries))
	for i, l := range libraries {
		names[i] = l.name
	}
	return names
}

// pick returns the libraries with these names, all if there are none.
func pick(names []string) []library {
	if len(names) == 0 {
		return libraries
	}
	return slices.DeleteFunc(slices.Clone(libraries), func(l library) bool { return !slices.Contains(names, l.name) })
}

// parseOnly reads a list of libraries' names.
func parseOnly(list string) (names []string, err error) {
	if list == "" {
		return nil, nil
	}
	for _, name := range strings.Split(list, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(libraryNames(), name) {
			return nil, fmt.Errorf("-only: %q is none of %s", name, strings.Join(libraryNames(), ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// applicable returns those of the libraries that can lock on so many nodes, and the names
// of the others.
func applicable(all []library, nodes int) (these []library, others []string) {
	for _, l := range all {
		if l.servers == oneNode && nodes != 1 {
			others = append(others, l.name)
			continue
		}
		these = append(these, l)
	}
	return these, others
}

// openAll opens a client of each library. The caller closes them with closeClients.
func openAll(all []library, o opening) (clients []client, err error) {
	for _, l := range all {
		c, err := l.open(l.name, o)
		if err != nil {
			closeClients(clients)
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func closeClients(clients []client) {
	for _, c := range clients {
		c.close()
	}
}

// newClients opens clients of the libraries with these names, all if there are none, that
// can lock on these nodes.
func newClients(addrs []string, ttl time.Duration, goroutines int, only ...string) ([]client, error) {
	these, _ := applicable(pick(only), len(addrs))
	return openAll(these, opening{addrs, ttl, goroutines})
}

// poolSize is how many connections to a node a library with a pool may have for so many
// goroutines. With fail-fast a goroutine goes on while the slower nodes still work on its
// earlier calls, so it may use several. Nobody dials while it is measured: a goroutine
// that finds no connection waits for one. The limit keeps all libraries together below
// the usual limits of open files.
func poolSize(goroutines int) int { return min(4*goroutines+16, maxPool) }

const maxPool = 700

var poolSetup = "pool of min(4 x goroutines + 16, " + strconv.Itoa(maxPool) + ") connections a node"
