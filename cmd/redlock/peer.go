package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// A peer is one node, and a connection of the tool's own to it: for what the library does not
// tell. It is for one goroutine at a time.
type peer struct {
	node           redlock.Node
	connectTimeout time.Duration
	nodeTimeout    time.Duration
	conn           redis.Conn // nil: there is none yet, or it broke
	failure        error      // the last one
	failedAt       time.Time
}

// failureLife is how long a node that has failed is not asked again, so that one that hangs
// does not hold up a list at every step.
const failureLife = 3 * time.Second

// onNodes connects to the nodes for what is to be done there, with these resources, whose names it checks.
func (t *tool) onNodes(resources []string, do func(peers []*peer, k stored.Keys) error) error {
	peers, err := t.global.peers()
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range peers {
			p.close()
		}
	}()
	k := stored.Keys{Prefix: t.global.prefix}
	if err := checkResources(k, resources); err != nil {
		return err
	}
	return do(peers, k)
}

// peers returns one for each node. close them.
func (g *globalFlags) peers() ([]*peer, error) {
	nodes, err := g.nodeList(redis.DialWriteTimeout(g.nodeTimeout))
	if err != nil {
		return nil, err
	}
	peers := make([]*peer, len(nodes))
	for i, n := range nodes {
		peers[i] = &peer{node: n, connectTimeout: g.connectTimeout, nodeTimeout: g.nodeTimeout}
	}
	// What is wrong with an address only New says.
	r, err := redlock.New(nodes, redlock.WithPrefix(g.prefix))
	if err != nil {
		return nil, asUsage(err)
	}
	return peers, r.Close(context.Background())
}

func (p *peer) close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// connect makes a connection, unless there is one.
func (p *peer) connect(ctx context.Context) error {
	if p.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.connectTimeout)
	defer cancel()
	conn, err := p.node.Pool.GetContext(ctx)
	if err != nil && isTimeout(err) {
		return fmt.Errorf("no connection within %v", p.connectTimeout)
	}
	if err != nil {
		return err
	}
	// The login of an address is only queued: its answers come with those to the first command.
	if _, err = redis.DoContext(conn, ctx, "PING"); err != nil && !refusedPing(err) {
		_ = conn.Close()
		if isTimeout(err) {
			return fmt.Errorf("no answer within %v", p.connectTimeout)
		}
		return err
	}
	p.conn = conn
	return nil
}

// isTimeout reports whether an answer has not come in time. Whether the context says so first, or the
// connection, is chance.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// refusedPing reports whether a user has no right to PING, and otherwise is logged in.
func refusedPing(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(string(reply), "NOPERM")
}

// A request is one command.
type request struct {
	name string
	args []any
}

// do sends commands together and returns their answers, each of which may be a redis.Error. The
// error is that of the connection, which is closed then.
func (p *peer) do(ctx context.Context, requests ...request) (answers []any, err error) {
	if p.failure != nil && time.Since(p.failedAt) < failureLife {
		return nil, p.failure
	}
	if err = p.connect(ctx); err == nil {
		if answers, err = p.exchange(ctx, requests); err != nil {
			p.close()
			if isTimeout(err) && ctx.Err() == nil {
				err = fmt.Errorf("no answer within %v", p.nodeTimeout)
			}
		}
	}
	p.failure, p.failedAt = err, time.Now()
	return answers, err
}

func (p *peer) exchange(ctx context.Context, requests []request) ([]any, error) {
	for _, r := range requests {
		if err := p.conn.Send(r.name, r.args...); err != nil {
			return nil, err
		}
	}
	if err := p.conn.Flush(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.nodeTimeout)
	defer cancel()
	answers := make([]any, len(requests))
	for i := range requests {
		answer, err := redis.ReceiveContext(p.conn, ctx)
		var reply redis.Error
		switch {
		case errors.As(err, &reply):
			answers[i] = reply
		case err != nil:
			return nil, err
		default:
			answers[i] = answer
		}
	}
	return answers, nil
}

// checkResources reports a resource that none can be.
func checkResources(k stored.Keys, resources []string) error {
	for _, res := range resources {
		if res == "" {
			return usagef("empty resource in %q", resources)
		}
		if _, ok := k.Resource(k.Lock(res)); !ok {
			return usagef("resource %q: keys with %q are reserved", res, stored.Reserved)
		}
	}
	return nil
}

// tellSets tells people of programs that share one of the nodes, but were given other ones than the tool. It leaves
// the nodes no note of the tool's own.
func (t *tool) tellSets(ctx context.Context, peers []*peer, k stored.Keys) {
	names, answers := make([]string, len(peers)), make([]string, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		names[i] = p.node.Name
		all.Go(func() {
			name, args := k.NotesCommand()
			if got, err := p.do(ctx, request{name, args}); err == nil {
				answers[i], _ = redis.String(got[0], nil) // Nothing where it is not allowed, or not known.
			}
		})
	}
	all.Wait()
	for _, d := range stored.SetDifferences(t.global.setName, names, answers) {
		t.note(oneLine(d.String()))
	}
}

// oneLine is a text with names that others have given.
func oneLine(text string) string { return harmless(strings.ReplaceAll(text, "\n", " ")) }

// tellSet is the hook of a redlock run, for the same.
func (t *tool) tellSet(e redlock.Event) {
	switch e.Kind {
	case redlock.EventSetsDiffer:
		t.note(oneLine(e.Set.String()))
	case redlock.EventSetsAgree:
		t.note("this set of nodes no longer differs from that of " + oneLine(e.Set.Who))
	}
}
