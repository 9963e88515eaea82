package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

func (d *demo) actRelease() act {
	return act{
		title: "A release by another process",
		calls: []string{
			`lock, err := alice.Lock(ctx, []string{"job:9"}, 30*time.Second)`,
			`r.Release(ctx, j.Resources, j.Token) // in the worker`,
		},
		play: d.playRelease,
	}
}

// A job is what an API hands to a worker. The token is a secret: whoever has it can release the
// lock.
type job struct {
	Nodes     []string
	Prefix    string
	Resources []string
	Token     string
}

// playRelease takes a lock, and has a second process release it.
func (d *demo) playRelease(ctx context.Context) error {
	lock, err := d.alice.Lock(ctx, []string{"job:9"}, 30*time.Second)
	if err != nil {
		return err
	}
	d.p.ok("Alice is an API: she takes the lock, hands job and token to a worker, and answers.")
	j := job{Nodes: d.servers.addrs, Prefix: d.servers.prefix, Resources: lock.Resources(), Token: lock.Token()}

	waited := make(chan error, 1)
	go func() {
		next, failed := d.bob.Lock(ctx, []string{"job:9"}, 30*time.Second)
		if failed == nil {
			failed = next.Unlock(ctx)
		}
		waited <- failed
	}()
	began := time.Now()
	pid, err := startWorker(ctx, j)
	if err != nil {
		return errors.Join(err, lock.Unlock(ctx), <-waited)
	}
	d.p.ok("The worker, which is process %d, has done the job, and released the lock.", pid)
	if took := time.Since(began); d.anyDown() {
		d.p.details(fmt.Sprintf("It took %s with its Close, which waits for the node timeout, %s, for a node that is down:", ms(took), nodeTimeout),
			"that node is to be told of the release, too. The lock was free at once.")
	}
	if err = <-waited; err != nil {
		return err
	}
	d.p.ok("Bob, who has waited for it, has got it at once.")
	return nil
}

// anyDown reports whether a node is down, as one of the user's may be.
func (d *demo) anyDown() bool {
	return slices.ContainsFunc(d.alice.Stats().Nodes, func(n redlock.NodeStats) bool { return !n.Up })
}

// worker is the argument by which this program is the worker of the act.
const worker = "worker"

// startWorker runs this program once more, and gives it the job on its standard input.
func startWorker(ctx context.Context, j job) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	message, err := json.Marshal(j)
	if err != nil {
		return 0, err
	}
	var complaint bytes.Buffer
	process := exec.CommandContext(ctx, self, worker)
	process.Stdin, process.Stderr = bytes.NewReader(message), &complaint
	if err = process.Run(); err != nil {
		return 0, fmt.Errorf("the worker: %w: %s", err, complaint.Bytes())
	}
	return process.ProcessState.Pid(), nil
}

// runWorker is what the second process does. It returns its exit status.
func runWorker(in io.Reader, complaints io.Writer) int {
	err := func() error {
		var j job
		if err := json.NewDecoder(in).Decode(&j); err != nil {
			return err
		}
		return finish(context.Background(), j)
	}()
	if err != nil {
		_, _ = fmt.Fprintln(complaints, err)
		return 1
	}
	return 0
}

// finish does the job, and releases the lock that another process has taken for it.
func finish(ctx context.Context, j job) (err error) {
	r, err := open((&servers{addrs: j.Nodes}).nodes(), j.Prefix, "worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	return r.Release(ctx, j.Resources, j.Token)
}
