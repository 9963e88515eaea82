package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The floor is what a quorum lock costs with nothing around it: one pipelined connection
// to each node, SET NX PX and a script that compares and deletes, encoded by hand, return at
// the quorum, one timer a round. It cleans nothing up, waits for nobody, says nothing about
// who holds what, and resolves no split. It keeps none of the promises of a lock, and is only
// there to be compared with.
var floorLibrary = library{
	Name:  "floor",
	Setup: "no lock: SET NX PX and a script that compares and deletes on one pipelined connection a node, encoded by hand, return at the quorum, none of the promises",
	Open:  openFloor,
}

const floorUnlock = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

const (
	// floorTimeout is how long a round takes at most.
	floorTimeout = 250 * time.Millisecond

	// floorWindow is how many requests may be outstanding on one connection.
	floorWindow = 1 << 14
)

var (
	errFloor = errors.New("floor: no quorum")
	floorSHA = func() string {
		sum := sha1.Sum([]byte(floorUnlock))
		return hex.EncodeToString(sum[:])
	}()
)

func openFloor(o opening) (client, error) {
	var nodes []*floorNode
	end := func() {
		for _, n := range nodes {
			n.close()
		}
	}
	for _, addr := range o.Addrs {
		n, err := dialFloor(addr)
		if err != nil {
			end()
			return client{}, err
		}
		nodes = append(nodes, n)
	}
	return client{
		Name:      "floor",
		NewWorker: func() worker { return &floorWorker{nodes: nodes, millis: strconv.FormatInt(o.TTL.Milliseconds(), 10)} },
		Close:     end,
	}, nil
}

type floorWorker struct {
	nodes              []*floorNode
	millis, key, token string
	command            []byte // the space for one
}

func (w *floorWorker) Try(_ context.Context, key string) error {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails.
	w.key, w.token = key, hex.EncodeToString(b[:])
	return w.round("SET", w.key, w.token, "NX", "PX", w.millis)
}

func (w *floorWorker) Unlock(context.Context) error {
	return w.round("EVALSHA", floorSHA, "1", w.key, w.token)
}

// round asks all nodes and returns at the quorum.
func (w *floorWorker) round(args ...string) error {
	w.command = appendFloor(w.command[:0], args)
	r := &floorVotes{n: len(w.nodes), need: len(w.nodes)/2 + 1, done: make(chan struct{}, 2)}
	for _, n := range w.nodes {
		n.send(r, w.command)
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

// appendFloor appends a command as the server reads it.
func appendFloor(b []byte, args []string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), '\r', '\n')
	for _, a := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(a)), 10), '\r', '\n')
		b = append(append(b, a...), '\r', '\n')
	}
	return b
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
	outstanding chan *floorVotes // in the order of the requests
	wake        chan struct{}    // wakes the writer
	ended       sync.WaitGroup   // the writer and the reader
	conn        net.Conn

	mu      sync.Mutex // of what follows, and of sending
	waiting []byte     // to be written
	dirty   bool       // the writer was woken for it
}

func dialFloor(addr string) (*floorNode, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	n := &floorNode{conn: conn, outstanding: make(chan *floorVotes, floorWindow), wake: make(chan struct{}, 1)}
	in := bufio.NewReaderSize(conn, 1<<16)
	loaded := ""
	if _, err = conn.Write(appendFloor(nil, []string{"SCRIPT", "LOAD", floorUnlock})); err == nil {
		if _, err = in.ReadString('\n'); err == nil {
			loaded, err = in.ReadString('\n')
		}
	}
	if err == nil && loaded != floorSHA+"\r\n" {
		err = fmt.Errorf("floor: the script was not loaded: %q", loaded)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	n.ended.Go(n.write)
	n.ended.Go(func() { n.read(in) })
	return n, nil
}

func (n *floorNode) send(r *floorVotes, command []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, command...)
	n.outstanding <- r
	switch {
	case len(n.outstanding) <= 1:
		n.flushLocked()
	case !n.dirty:
		n.dirty = true
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// flushLocked writes what waits. n.mu is held.
func (n *floorNode) flushLocked() {
	if len(n.waiting) > 0 {
		_, _ = n.conn.Write(n.waiting)
		n.waiting = n.waiting[:0]
	}
}

func (n *floorNode) write() {
	for range n.wake {
		runtime.Gosched() // Others may have more to send.
		n.mu.Lock()
		n.dirty = false
		n.flushLocked()
		n.mu.Unlock()
	}
}

// read reads the replies: +OK and :1 are a yes, $-1 and :0 are none. An error ends it.
func (n *floorNode) read(in *bufio.Reader) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || line[0] == '-' {
			return
		}
		(<-n.outstanding).add(line[0] == '+' || string(line) == ":1\r\n")
	}
}

// close ends the connection. Nobody locks any more.
func (n *floorNode) close() {
	_ = n.conn.Close()
	close(n.wake)
	n.ended.Wait()
}
