package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// optionGoroutines are the numbers of goroutines that an option is measured with.
var optionGoroutines = []int{64, 8, 1}

// fencing measures what a fence costs.
func fencing(s settings, out *section, cluster *testcluster.Cluster) error {
	return costs(s, out, cluster, libraries.Ours("with fencing", "", redlock.WithFencing()), libraries.Ours("without", ""))
}

// quarantine measures what quarantine costs.
func quarantine(s settings, out *section, cluster *testcluster.Cluster) error {
	opt := redlock.WithQuarantine(s.ttl)
	r, err := libraries.OpenRedlock(cluster.Addrs(), opt)
	if err != nil {
		return err
	}
	err = r.Admit(context.Background(), cluster.Addrs()...) // It ends the quarantine of new nodes.
	if err = errors.Join(err, r.Close(context.Background())); err != nil {
		return err
	}
	return costs(s, out, cluster, libraries.Ours("with quarantine", "", opt), libraries.Ours("without", ""))
}

// resources measures what a lock of several resources costs.
func resources(s settings, out *section, cluster *testcluster.Cluster) error {
	var sets []library
	for _, number := range []int{1, 2, 5, 10, 20, 50, 100} {
		sets = append(sets, libraries.OfSets(fmt.Sprintf("resources: %d", number), number))
	}
	return costs(s, out, cluster, sets...)
}

// costs measures redlock with several options, beside each other.
func costs(s settings, out *section, cluster *testcluster.Cluster, these ...library) error {
	r := report{setting: "goroutines", title: s.title()}
	for _, g := range few(s, optionGoroutines) {
		if err := r.compare(s, fmt.Sprint(g), these, cluster, g); err != nil {
			return err
		}
	}
	return r.write(out)
}
