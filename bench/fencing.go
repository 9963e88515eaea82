package main

import (
	"errors"
	"io"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// fencing measures what a fence costs: throughput and latency of the same lock with
// and without one.
func fencing(s settings, w io.Writer) (err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	fenced, err := newRedlock("with fencing", cluster.Addrs(), s.ttl, redlock.WithFencing())
	if err != nil {
		return err
	}
	plain, err := newRedlock("without", cluster.Addrs(), s.ttl)
	if err != nil {
		fenced.close()
		return err
	}
	clients := []client{fenced, plain}
	defer closeClients(clients)
	if err := throughput(s, w, cluster, clients); err != nil {
		return err
	}
	return latency(s, w, clients)
}
