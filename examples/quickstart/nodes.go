package main

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// clusterSize is how many servers the demo brings. Five keep working while any
// two of them are down.
const clusterSize = 5

// servers are what the demo locks on.
type servers struct {
	nodes []redlock.Node

	// cluster has the demo's own servers. It is nil where they are somebody
	// else's, which the demo must not kill. Programs outside this module cannot
	// import its package and do not need it: they have addresses.
	cluster *testcluster.Cluster
}

// startServers uses the servers that REDLOCK_NODES names, or else starts some.
func startServers(env func(string) string) (*servers, error) {
	if addrs := env("REDLOCK_NODES"); addrs != "" {
		return &servers{nodes: nodesAt(strings.FieldsFunc(addrs, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }))}, nil
	}
	cluster, err := testcluster.StartEmbedded(clusterSize)
	if err != nil {
		return nil, fmt.Errorf("starting the in-memory servers: %w", err)
	}
	s := &servers{nodes: nodesAt(cluster.Addrs()), cluster: cluster}
	for i, n := range cluster.Nodes {
		// A node is named by its address unless it gets another name, which is
		// easier to follow here than five random ports.
		s.nodes[i].Name = n.Name()
	}
	return s, nil
}

// nodesAt returns a node for each address. Nothing is dialled yet, and an address
// that makes no sense is reported by redlock.New.
func nodesAt(addrs []string) []redlock.Node {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(strings.TrimSpace(addr))
	}
	return nodes
}

// names returns the names of all nodes. They never have passwords in them, as
// REDLOCK_NODES may.
func (s *servers) names() string {
	names := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}

// kill makes servers die: their connections break and new ones are refused.
func (s *servers) kill(nodes []*testcluster.Node, p *printer) error {
	for _, n := range nodes {
		p.say("The demo kills %s.", n.Name())
		if err := n.Stop(); err != nil {
			return fmt.Errorf("killing %s: %w", n.Name(), err)
		}
	}
	return nil
}

// restart brings killed servers back. They have kept their data, as a real one
// must to come back this soon: a node that forgot a lock would help a second
// client to get it as well.
func (s *servers) restart(nodes []*testcluster.Node, p *printer) error {
	for _, n := range nodes {
		p.say("The demo starts %s again, with the data it had.", n.Name())
		if err := n.Restart(true); err != nil {
			return fmt.Errorf("starting %s again: %w", n.Name(), err)
		}
	}
	return nil
}

// checkEmpty fails if a server of the demo still stores the lock.
func (s *servers) checkEmpty(p *printer) error {
	if s.cluster == nil {
		return nil
	}
	for _, n := range s.cluster.Nodes {
		_, found, err := n.Get(prefix + resource)
		if err != nil {
			return fmt.Errorf("reading %s: %w", n.Name(), err)
		}
		if found {
			return fmt.Errorf("%s still has the key of a released lock", n.Name())
		}
	}
	p.say("No node has a key of the lock left.")
	return nil
}

// close ends the demo's own servers.
func (s *servers) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
