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

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/redlock"
)

// A job is what an API hands to a worker. The token is a secret: whoever has it can release the
// lock.
type job struct {
	Nodes     []string
	Prefix    string
	Resources []string
	Token     string
}

// playRelease takes a lock, and has a second process release it.
func (d *demo) playRelease(ctx context.Context) {
	lock, err := d.alice.Lock(ctx, []string{"job:9"}, 30*time.Second)
	stage.Must(err)
	d.ok("Alice is an API: she takes the lock, hands job and token to a worker, and answers.")
	j := job{Nodes: d.addrs, Prefix: d.prefix, Resources: lock.Resources(), Token: lock.Token()}

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
		stage.Must(errors.Join(err, lock.Unlock(ctx), <-waited))
	}
	d.ok("The worker, which is process %d, has done the job, and released the lock.", pid)
	took := time.Since(began)
	// One of the user's nodes may be down.
	if slices.ContainsFunc(d.alice.Stats().Nodes, func(n redlock.NodeStats) bool { return !n.Up }) {
		d.details(fmt.Sprintf("It took %s with its Close, which waits for the node timeout, %s, for a node that is down:", ms(took), nodeTimeout),
			"that node is to be told of the release, too. The lock was free at once.")
	}
	stage.Must(<-waited)
	d.ok("Bob, who has waited for it, has got it at once.")
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
	var j job
	err := json.NewDecoder(in).Decode(&j)
	if err == nil {
		err = finish(context.Background(), j)
	}
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
