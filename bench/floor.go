package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The floor is what a quorum lock costs with nothing around it: one pipelined connection
// to each node, plain Redlock scripts, return at the quorum, one timer a round. It cleans
// nothing up, waits for nobody and resolves no split. It keeps none of the promises of a
// lock, and is only there to be compared with. It is a floor for what goes over the wire and
// what the servers do, not for the client's processor: redigo encodes its commands.
var floorLibrary = library{
	name:    "floor",
	modules: []string{"github.com/gomodule/redigo"},
	setup:   "no lock: plain Redlock scripts on one pipelined redigo connection a node, return at the quorum, none of the promises",
	open:    openFloor,
}

const (
	floorLock   = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0`
	floorUnlock = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

	// floorTimeout is how long a round takes at most.
	floorTimeout = 250 * time.Millisecond

	// floorWindow is how many requests may be outstanding on one connection.
	floorWindow = 1 << 14
)

var errFloor = errors.New("floor: no quorum")

func openFloor(name string, o opening) (client, error) {
	var nodes []*floorNode
	end := func() {
		for _, n := range nodes {
			n.close()
		}
	}
	for _, addr := range o.addrs {
		n, err := dialFloor(addr)
		if err != nil {
			end()
			return client{}, err
		}
		nodes = append(nodes, n)
	}
	return client{
		name:      name,
		newWorker: func() worker { return &floorWorker{nodes: nodes, millis: o.ttl.Milliseconds()} },
		close:     end,
	}, nil
}

type floorWorker struct {
	nodes      []*floorNode
	millis     int64
	key, token string
}

func (w *floorWorker) lock(_ context.Context, key string) error {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails.
	w.key, w.token = key, hex.EncodeToString(b[:])
	return floorRound(w.nodes, (*floorNode).lockScript, w.key, w.token, w.millis)
}

func (w *floorWorker) unlock(context.Context) error {
	return floorRound(w.nodes, (*floorNode).unlockScript, w.key, w.token)
}

// floorRound asks all nodes and returns at the quorum.
func floorRound(nodes []*floorNode, script func(*floorNode) string, args ...any) error {
	r := &floorVotes{n: len(nodes), need: len(nodes)/2 + 1, done: make(chan struct{}, 2)}
	for _, n := range nodes {
		n.send(r, script(n), args)
	}
	timer := time.NewTimer(floorTimeout)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	}
	if !r.won.Load() {
		return errFloor
	}
	return nil
}

// floorVotes are the votes on one operation.
type floorVotes struct {
	n, need int
	yes, no atomic.Int32
	won     atomic.Bool
	done    chan struct{} // sent to when the quorum is reached, and when it cannot be reached any more
}

func (r *floorVotes) add(yes bool) {
	switch {
	case yes && int(r.yes.Add(1)) == r.need:
		r.won.Store(true)
		r.done <- struct{}{}
	case !yes && int(r.no.Add(1)) == r.n-r.need+1:
		r.done <- struct{}{}
	}
}

// A floorNode is one server with its connection. A caller writes by itself if nothing else
// is outstanding; otherwise a writer writes what has gathered.
type floorNode struct {
	lockSHA, unlockSHA string

	outstanding chan *floorVotes // in the order of the requests
	wake        chan struct{}    // wakes the writer
	ended       sync.WaitGroup   // the writer and the reader

	mu    sync.Mutex // of what follows, and of sending
	conn  redis.Conn
	dirty bool // something is to be written
}

func dialFloor(addr string) (*floorNode, error) {
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	n := &floorNode{conn: conn, outstanding: make(chan *floorVotes, floorWindow), wake: make(chan struct{}, 1)}
	if n.lockSHA, err = redis.String(conn.Do("SCRIPT", "LOAD", floorLock)); err == nil {
		n.unlockSHA, err = redis.String(conn.Do("SCRIPT", "LOAD", floorUnlock))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	n.ended.Go(n.write)
	n.ended.Go(n.read)
	return n, nil
}

func (n *floorNode) lockScript() string   { return n.lockSHA }
func (n *floorNode) unlockScript() string { return n.unlockSHA }

func (n *floorNode) send(r *floorVotes, sha string, args []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.conn.Send("EVALSHA", append([]any{sha, 1}, args...)...)
	n.outstanding <- r
	switch {
	case len(n.outstanding) <= 1:
		_ = n.conn.Flush()
	case !n.dirty:
		n.dirty = true
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

func (n *floorNode) write() {
	for range n.wake {
		runtime.Gosched() // Others may have more to send.
		n.mu.Lock()
		n.dirty = false
		_ = n.conn.Flush()
		n.mu.Unlock()
	}
}

func (n *floorNode) read() {
	for {
		yes, err := redis.Int(n.conn.Receive())
		if err != nil {
			return
		}
		(<-n.outstanding).add(yes > 0)
	}
}

// close ends the connection. Nobody locks any more.
func (n *floorNode) close() {
	_ = n.conn.Close()
	close(n.wake)
	n.ended.Wait()
}
