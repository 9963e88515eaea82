package course

import (
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/history"
)

// lookers look at the nodes, past the network, after a call that has got, extended or released a lock. What a call says is
// compared with what the nodes have: a lock that is on too few of them excludes nobody, whether somebody comes or not.
type lookers struct {
	run   *run
	locks map[lockID]history.Event // Their acquisitions.
	asked chan history.Event
	all   sync.WaitGroup
}

type lockID struct {
	client string
	call   int
}

const (
	// looking is how many look at a time. Should too many wait for them, a call goes without.
	looking = 4
	// patience is for how long one looks at a node. One that is frozen is left alone for a while then.
	patience = 100 * time.Millisecond
	alone    = 500 * time.Millisecond
)

// startLooking is called before there is anything to see.
func (r *run) startLooking() {
	r.lookers = &lookers{run: r, locks: make(map[lockID]history.Event), asked: make(chan history.Event, 16*looking)}
	for range looking {
		r.lookers.all.Go(r.lookers.look)
	}
}

// stopLooking waits until nobody looks any more.
func (r *run) stopLooking() {
	r.mu.Lock()
	l := r.lookers
	r.lookers = nil
	r.mu.Unlock()
	if l != nil {
		close(l.asked)
		l.all.Wait()
	}
}

// see is called with each event, one at a time, and does not wait.
func (l *lookers) see(e history.Event) {
	if e.Kind != history.Return || !e.OK {
		return
	}
	id := lockID{e.Client, e.Lock}
	switch e.Op {
	case history.OpLock, history.OpTryLock:
		id.call = e.Call
		l.locks[id] = e
	case history.OpExtend, history.OpUnlock:
	default:
		return
	}
	got, known := l.locks[id]
	if e.Op == history.OpUnlock {
		delete(l.locks, id)
	}
	if !known || got.Token == "" || strings.HasPrefix(got.Resources[0], "long/") || strings.Contains(got.Resources[0], "#") {
		return // Those have a prefix, or are slots: their keys have other names.
	}
	select {
	case l.asked <- history.Event{Kind: history.Look, Op: e.Op, Owner: e.Client, Lock: id.call, Call: e.Call, Resources: got.Resources, Token: got.Token}:
	default:
	}
}

// look takes one after the other.
func (l *lookers) look() {
	nodes := make([]sight, len(l.run.nodes))
	for e := range l.asked {
		now := l.run.observer.Now
		e.At = now()
		var all sync.WaitGroup
		seen := make([]*history.Seen, len(nodes))
		for i := range nodes {
			all.Go(func() { seen[i] = nodes[i].of(l.run.nodes[i].DirectAddr(), e, now) })
		}
		all.Wait()
		for i, s := range seen {
			if s != nil {
				s.Node = i
				e.Seen = append(e.Seen, *s)
			}
		}
		e.End, e.Token = now(), "" // It is not who asks: the lock is named by its owner.
		l.run.observer.Log(e)
	}
	for _, n := range nodes {
		n.close()
	}
}

// A sight is a connection to a node, or none.
type sight struct {
	conn  redis.Conn
	blind time.Time // Until then.
}

func (s *sight) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// of is what the node has of a lock, nil if it does not say.
func (s *sight) of(addr string, e history.Event, now func() int64) *history.Seen {
	if time.Now().Before(s.blind) {
		return nil
	}
	var replies []any
	var err error
	if s.conn == nil {
		s.conn, err = redis.Dial("tcp", addr, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	}
	if err == nil {
		replies, err = redis.Values(s.conn.Do("EVAL", redis.Args{keysOf, len(e.Resources)}.AddFlat(e.Resources).Add(e.Token)...))
	}
	numbers, err := redis.Int64s(replies, err)
	if err != nil {
		if s.conn != nil {
			s.close()
		}
		s.blind = time.Now().Add(alone)
		return nil
	}
	return &history.Seen{At: now(), Keys: int(numbers[0]), Left: numbers[1] * int64(time.Millisecond), Others: int(numbers[2])}
}

// keysOf tells how many keys hold a token, for how long the first of them to end does yet, and how many hold another one.
const keysOf = `local n, left, others = 0, 0, 0
for _, key in ipairs(KEYS) do
	if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[1] then
		local more = redis.call('PTTL', key)
		if n == 0 or more < left then left = more end
		n = n + 1
	else
		others = others + redis.call('EXISTS', key)
	end
end
return {n, left, others}`
