package main

import (
	"context"
	"errors"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// fencing measures what a fence costs.
func fencing(s settings, out *section) error {
	return costs(s, out, "with fencing", redlock.WithFencing())
}

// quarantine measures what quarantine costs.
func quarantine(s settings, out *section) error {
	return costs(s, out, "with quarantine", redlock.WithQuarantine(s.ttl))
}

// costs measures throughput and latency of the same lock with and without an option.
func costs(s settings, out *section, name string, opt redlock.Option) (err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	with, err := newRedlock(name, cluster.Addrs(), s.ttl, opt)
	if err != nil {
		return err
	}
	plain, err := newRedlock("without", cluster.Addrs(), s.ttl)
	if err != nil {
		with.close()
		return err
	}
	clients := []client{with, plain}
	defer closeClients(clients)
	if name == "with quarantine" {
		if err = admit(cluster.Addrs(), opt); err != nil {
			return err
		}
	}
	if _, err = throughput(s, out, cluster, clients); err != nil {
		return err
	}
	_, err = latency(s, out, clients)
	return err
}

// admit ends the quarantine of new nodes.
func admit(addrs []string, opt redlock.Option) error {
	r, err := openRedlock(addrs, opt)
	if err != nil {
		return err
	}
	return errors.Join(r.Admit(context.Background(), addrs...), r.Close(context.Background()))
}
