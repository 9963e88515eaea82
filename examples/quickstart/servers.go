package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// clusterSize is how many servers the demo brings. Five keep working while any two of them are
// down.
const clusterSize = 5

// servers are what the demo locks on.
type servers struct {
	addrs []string

	// prefix is put in front of all keys, and is another one each time: demos that share servers
	// do not meet.
	prefix string

	// cluster has the demo's own servers. It is nil where they are somebody else's, which the
	// demo must not stop. Programs outside this module cannot import its package and do not need
	// it: they have addresses.
	cluster *testcluster.Cluster
}

// startServers uses the servers at addrs, or else starts some.
func startServers(addrs string) (*servers, error) {
	s := &servers{prefix: "quickstart-" + rand.Text()[:8] + ":"}
	if addrs = strings.TrimSpace(addrs); addrs != "" {
		for entry := range strings.SplitSeq(addrs, ",") {
			if strings.TrimSpace(entry) == "" {
				s.addrs = append(s.addrs, "") // Of an unset variable: redlock.New refuses it.
			}
			s.addrs = append(s.addrs, strings.Fields(entry)...)
		}
		return s, nil
	}
	var err error
	if s.cluster, err = testcluster.StartEmbedded(clusterSize); err != nil {
		return nil, fmt.Errorf("starting the in-memory servers: %w", err)
	}
	s.addrs = s.cluster.Addrs()
	return s, nil
}

// describe says whose they are.
func (s *servers) describe() string {
	if s.cluster == nil {
		return fmt.Sprintf("%d Redis servers, those of REDLOCK_NODES, none of which is stopped", len(s.addrs))
	}
	return fmt.Sprintf("%d Redis servers, which are in memory, and some of which will die", len(s.addrs))
}

// nodes returns a node for each address. An address that makes no sense is reported by
// redlock.New.
func (s *servers) nodes() []redlock.Node {
	nodes := make([]redlock.Node, len(s.addrs))
	for i, addr := range s.addrs {
		nodes[i] = redlock.NewNode(addr)
		if s.cluster != nil {
			// A node is named by its address unless it gets another name, which is easier to
			// follow here than five random ports.
			nodes[i].Name = s.cluster.Nodes[i].Name()
		}
	}
	return nodes
}

// forget deletes the key of a resource on all nodes that can be reached, as an operator with
// redis-cli might.
func (s *servers) forget(ctx context.Context, resource string) error {
	var errs []error
	for _, n := range s.nodes() {
		conn, err := n.Pool.GetContext(ctx)
		if err == nil {
			_, err = conn.Do("DEL", s.prefix+resource)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting a key at %s: %w", n.Name, err))
		}
	}
	if len(errs) <= len(s.addrs)/2 { // One of the user's may be down.
		return nil
	}
	return errors.Join(errs...)
}

// checkEmpty fails if a server of the demo still stores a lock.
func (d *demo) checkEmpty() {
	if d.cluster == nil {
		return
	}
	for _, n := range d.cluster.Nodes {
		keys := stage.Got(n.Keys())
		for _, resource := range resources {
			_, found := keys[d.prefix+resource]
			stage.Check(!found, "%s still has the key of %s, which was released", n.Name(), resource)
		}
	}
	d.ok("No node has a key of a lock left.")
}

// resources are all that the acts lock.
var resources = []string{"account:1", "account:2", "account:3", "account:42", "file:7", "job:9", "report"}

// close ends the demo's own servers.
func (s *servers) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
