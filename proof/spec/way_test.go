package main

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A way is what messages of one client to one node go over: a pool of connections. It keeps those that are about the
// resource, and delivers them when it is told to, in any order and any number of times. All others go through.
type way struct {
	node  *testcluster.Node
	kinds map[string]string // of messages, by the code of their script

	mu      sync.Mutex
	isOpen  bool              // it keeps nothing any more
	sources map[string]string // of scripts, by their hash
	kept    []*message
	latest  *held
	token   string // of the client's lock
}

type message struct {
	kind    string // empty: it is not kept
	command string
	args    []any

	delivered bool
	reply     any
	err       error
	heard     chan struct{} // closed when the answer has arrived
}

func newWay(t *testing.T, n *testcluster.Node) *way {
	t.Helper()
	w := &way{node: n, kinds: map[string]string{}, sources: map[string]string{}}
	for script, kind := range map[string]string{
		"lock": "lock request", "extend": "extension", "repair": "repair", "unlock": "release",
	} {
		text, err := os.ReadFile("../../redlock/scripts/" + script + ".lua")
		require.NoError(t, err)
		w.kinds[node.Code(string(text))] = kind
	}
	return w
}

// GetContext makes a connection.
func (w *way) GetContext(context.Context) (redis.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = &held{w: w, broken: make(chan struct{})}
	w.latest.came.L = &w.mu
	return w.latest, nil
}

// send takes a message, and carries it out unless it is to be kept. w.mu is held.
func (w *way) send(m *message) {
	switch m.command {
	case "SCRIPT", "EVAL":
		source := fmt.Sprint(m.args[len(m.args)-1])
		if m.command == "EVAL" {
			source = fmt.Sprint(m.args[0])
		}
		w.sources[fmt.Sprintf("%x", sha1.Sum([]byte(source)))] = source
	}
	m.kind = w.kindOf(m)
	if m.kind == "" || w.isOpen {
		m.run(w.node)
		close(m.heard)
		return
	}
	w.kept = append(w.kept, m)
}

func (w *way) kindOf(m *message) string {
	if !strings.HasPrefix(m.command, "EVAL") || len(m.args) < 4 || fmt.Sprint(m.args[2]) != resource {
		return ""
	}
	source := fmt.Sprint(m.args[0])
	if m.command == "EVALSHA" {
		source = w.sources[source]
	}
	for code, kind := range w.kinds {
		if strings.Contains(source, code) {
			keys := 0
			_, _ = fmt.Sscan(fmt.Sprint(m.args[1]), &keys)
			w.token = fmt.Sprint(m.args[2+keys])
			return kind
		}
	}
	return ""
}

// run carries the message out.
func (m *message) run(n *testcluster.Node) {
	m.delivered = true
	c, err := n.Conn(context.Background())
	if err != nil {
		m.err = err
		return
	}
	m.reply, m.err = c.Do(m.command, m.args...)
	_ = c.Close()
}

// deliver carries out what is kept of a kind; if there is nothing, and again, what was carried out before, once more.
func (w *way) deliver(kind string, again bool) (came bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var before *message
	for _, m := range w.kept {
		if m.kind == kind && !m.delivered {
			m.run(w.node)
			came = true
		} else if m.kind == kind {
			before = m
		}
	}
	if again && !came && before != nil {
		copied := *before
		copied.run(w.node)
		came = true
	}
	return came
}

// hear has the answers arrive.
func (w *way) hear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.kept {
		if m.delivered && m.heard != nil {
			close(m.heard)
			m.heard = nil
		}
	}
}

// breakIfStuck breaks the connection if something on it has not been delivered.
func (w *way) breakIfStuck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.latest.sent {
		if !m.delivered {
			w.latest.end()
			return
		}
	}
}

func (w *way) open() {
	w.mu.Lock()
	w.isOpen = true
	w.mu.Unlock()
	for _, kind := range w.kinds {
		w.deliver(kind, false)
	}
	w.hear()
}

var errBroken = errors.New("the connection is broken")

// held is a connection. It has what the library calls.
type held struct {
	testcluster.FullConn // nil

	w      *way
	broken chan struct{}

	// Guarded by w.mu.
	came sync.Cond
	sent []*message // that have not been received
	over bool
}

// end breaks the connection. w.mu is held.
func (h *held) end() {
	if !h.over {
		h.over = true
		close(h.broken)
		h.came.Broadcast()
	}
}

// Send implements [redis.Conn].
func (h *held) Send(command string, args ...any) error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.over {
		return errBroken
	}
	m := &message{command: command, args: args, heard: make(chan struct{})}
	h.w.send(m)
	h.sent = append(h.sent, m)
	h.came.Broadcast()
	return nil
}

// ReceiveWithTimeout implements [redis.ConnWithTimeout]. Nothing is waited for that needs the timeout.
func (h *held) ReceiveWithTimeout(time.Duration) (any, error) {
	h.w.mu.Lock()
	for len(h.sent) == 0 && !h.over {
		h.came.Wait()
	}
	if h.over {
		h.w.mu.Unlock()
		return nil, errBroken
	}
	m := h.sent[0]
	heard := m.heard
	h.w.mu.Unlock()
	if heard != nil {
		select {
		case <-heard:
		case <-h.broken:
			return nil, errBroken
		}
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.sent = h.sent[1:]
	return m.reply, m.err
}

// ReceiveContext implements [redis.ConnWithContext]: it is how a connection is aborted.
func (h *held) ReceiveContext(context.Context) (any, error) { //nolint:unparam // The interface wants it so.
	_ = h.Close()
	return nil, errBroken
}

// Close implements [redis.Conn].
func (h *held) Close() error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.end()
	return nil
}

// Err implements [redis.Conn].
func (h *held) Err() error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.over {
		return errBroken
	}
	return nil
}

// Flush implements [redis.Conn].
func (h *held) Flush() error { return h.Err() }

// DoContext implements [redis.ConnWithContext]. The library asks by an empty command whether there is such a method.
func (h *held) DoContext(context.Context, string, ...any) (any, error) { return nil, h.Err() } //nolint:unparam // The interface wants it so.
