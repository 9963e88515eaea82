package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// servers are what the demo locks on.
type servers struct {
	addrs []string

	// prefix is put in front of all keys, and is another one each time: demos that share servers
	// do not meet.
	prefix string

	// Stage has the demo's own servers. It is nil where they are somebody else's, which the
	// demo must not stop.
	*stage.Stage
}

// startServers uses the servers at addrs, or else starts some.
func startServers(addrs string) (s *servers, err error) {
	s = &servers{prefix: "quickstart-" + rand.Text()[:8] + ":"}
	if addrs = strings.TrimSpace(addrs); addrs == "" {
		s.Stage, err = stage.Open(io.Discard)
		return s, err
	}
	for entry := range strings.SplitSeq(addrs, ",") {
		if strings.TrimSpace(entry) == "" {
			s.addrs = append(s.addrs, "") // Of an unset variable: redlock.New refuses it.
		}
		s.addrs = append(s.addrs, strings.Fields(entry)...)
	}
	return s, nil
}

// describe says whose they are.
func (s *servers) describe() string {
	if s.Stage == nil {
		return fmt.Sprintf("%d Redis servers, those of REDLOCK_NODES, none of which is stopped", len(s.addrs))
	}
	return fmt.Sprintf("%d Redis servers, which are in memory, and some of which will die", len(s.Nodes))
}

// nodes returns a node for each address. An address that makes no sense is reported by
// redlock.New. Servers in memory have none, but pools of connections.
func (s *servers) nodes() (nodes []redlock.Node) {
	if s.Stage != nil {
		for _, n := range s.Nodes {
			nodes = append(nodes, redlock.Node{Name: n.Name(), Pool: n.Pool()})
		}
	}
	for _, addr := range s.addrs {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	return nodes
}

// checkEmpty fails if a server of the demo still stores a lock.
func (d *demo) checkEmpty() {
	if d.Stage == nil {
		return
	}
	for _, resource := range resources {
		holding := d.Holding(d.prefix + resource)
		stage.Check(holding == 0, "%d nodes still have the key of %s, which was released", holding, resource)
	}
	d.ok("No node has a key of a lock left.")
}

// resources are all that the acts lock.
var resources = []string{"account:42", "file:7", "report"}

// end ends the demo's own servers.
func (s *servers) end(ctx context.Context) error {
	if s.Stage == nil {
		return nil
	}
	return s.Close(ctx)
}
