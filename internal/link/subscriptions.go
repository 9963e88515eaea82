package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A waiting client is told of a release by a message to a channel of its own. For that it has one more connection to
// every node, from when a call waits until none has waited for a while. A failure of that connection costs only time: a
// waiter that hears nothing polls.

const (
	// ListenFor is how long the connections are kept when nobody waits any longer.
	ListenFor = 10 * time.Second

	// MaxRelisten is the longest wait before the next attempt to listen, minRelisten the shortest.
	MaxRelisten = 5 * time.Second
	minRelisten = 50 * time.Millisecond
)

var errNotPushed = errors.New("not a message of a subscription")

// Subscriptions are the subscriptions to one channel on several nodes, one each.
type Subscriptions struct {
	Need    int // how many subscriptions are enough
	Channel any // boxed

	// Message gets what comes from node i. Changed is called when messages begin to arrive that did not before. Both
	// are called without locks.
	Message func(i int, payload string)
	Changed func()

	each []*subscription

	mu     sync.Mutex  // not held together with a link's; Config.Report is called with it held
	wanted int         // calls that wait
	rest   *time.Timer // stops the listeners; nil: not set
	closed bool
}

// A subscription is the subscription to one node. all.mu guards its fields.
type subscription struct {
	all   *Subscriptions
	link  *Link
	index int

	end     context.CancelFunc // ends its goroutine; nil: there is none
	done    chan struct{}      // closed when the goroutine has ended
	endConn context.CancelFunc // ends the connection; nil: there is none
	up      bool               // it listens
	settled bool               // since it was started, it has begun to listen or failed to
	failed  bool               // the last attempt to listen has failed
	said    [complaints]bool   // which complaints were reported

	reached chan struct{} // holds one; see again
}

// A Complaint is a reason why waiters hear nothing from a node.
type Complaint int

// The complaints. All but the first come from outside.
const (
	noSubscription Complaint = iota // until it works
	NoPublish
	NoQueue
	complaints
)

// Add makes the subscription to the next node.
func (all *Subscriptions) Add(l *Link) {
	l.subscription = &subscription{all: all, link: l, index: len(all.each), reached: make(chan struct{}, 1)}
	all.each = append(all.each, l.subscription)
}

// Want notes that one more call waits, and starts the listeners unless they run.
func (all *Subscriptions) Want() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.wanted++
	if all.rest != nil {
		all.rest.Stop()
		all.rest = nil
	}
	for _, s := range all.each {
		if s.end == nil && !all.closed {
			var ctx context.Context
			ctx, s.end = context.WithCancel(context.Background())
			last := s.done
			s.done, s.settled = make(chan struct{}), false
			go s.run(ctx, last, s.done)
		}
	}
}

// Unwant notes that a call no longer waits.
func (all *Subscriptions) Unwant() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.wanted--
	if all.wanted == 0 && !all.closed {
		all.rest = time.AfterFunc(ListenFor, func() {
			all.mu.Lock()
			defer all.mu.Unlock()
			if all.wanted == 0 {
				all.stopLocked()
			}
		})
	}
}

func (all *Subscriptions) stopLocked() {
	for _, s := range all.each {
		if s.end != nil {
			s.end()
			s.end = nil
		}
	}
}

// Up reports whether this process listens to any node, so that getting in line is of use, and whether it listens to
// enough to hear of each release.
func (all *Subscriptions) Up() (some, enough bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	ups := all.upsLocked()
	return ups > 0, ups >= all.Need
}

func (all *Subscriptions) upsLocked() (ups int) {
	for _, s := range all.each {
		if s.up {
			ups++
		}
	}
	return ups
}

// turned notes whether a subscription works. It reports whether messages of releases begin to arrive that did not
// before: now a quorum listens, or all nodes that ever will.
func (s *subscription) turned(up bool) (news bool) {
	all := s.all
	all.mu.Lock()
	defer all.mu.Unlock()
	news = up && !s.up || !s.settled
	s.up, s.settled, s.failed = up, true, !up
	if up {
		s.said[noSubscription] = false
	}
	ups, settled := all.upsLocked(), 0
	for _, other := range all.each {
		if other.settled {
			settled++
		}
	}
	return news && (up && ups == all.Need || ups > 0 && ups < all.Need && settled == len(all.each))
}

// Close ends the listeners for good. It waits for that until ctx ends.
func (all *Subscriptions) Close(ctx context.Context) {
	all.mu.Lock()
	all.closed = true
	if all.rest != nil {
		all.rest.Stop()
	}
	all.stopLocked()
	all.mu.Unlock()
	for _, s := range all.each {
		if s.done == nil { // Not changed any more.
			continue
		}
		select {
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// drop ends the connection of a node's subscription, because the connection of its requests has ended: the pool may
// have only one to give, and the next one may lead elsewhere.
func (s *subscription) drop() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.endConn != nil {
		s.endConn()
	}
}

// again makes the next attempt to listen now, as the node can be reached. Otherwise waiters would poll for the rest of
// the pause, which is seconds after an outage. It takes no lock, as a link calls it with its own held.
func (s *subscription) again() {
	select {
	case s.reached <- struct{}{}:
	default:
	}
}

// forgetReached makes the next pause a whole one, unless the node is reached again meanwhile.
func (s *subscription) forgetReached() {
	select {
	case <-s.reached:
	default:
	}
}

func (s *subscription) isUp() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.up
}

// run listens until ctx ends. last is closed when an earlier run has ended.
func (s *subscription) run(ctx context.Context, last <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	if last != nil {
		<-last
	}
	var early time.Time // when a pause was last cut short
	for pause := minRelisten; ; pause = min(2*pause, MaxRelisten) {
		began := time.Now()
		s.forgetReached() // This attempt uses what was reached before it.
		err := s.listen(ctx)
		if time.Since(began) > MaxRelisten {
			pause = minRelisten
		}
		s.all.mu.Lock()
		worked, again := s.up, s.failed
		s.all.mu.Unlock()
		if s.turned(false) {
			s.all.Changed()
		}
		if ctx.Err() != nil {
			return
		}
		// A subscription that has worked and broken comes back, or fails the next time. A failure that looks like the
		// network's may be the node's, which soon has an event of its own.
		if !worked && s.link.Unreached() == nil && (again || conn.IsReply(err) || errors.Is(err, errNotPushed)) {
			s.complain(noSubscription, err)
		}
		wait, reached := pause, s.reached
		if left := MaxRelisten - time.Since(early); left > 0 {
			wait, reached = min(pause, left), nil // A node may flap: each new subscription can have all heads ask the nodes.
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-reached:
			t.Stop()
			pause, early = minRelisten, time.Now()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// Complain reports once that waiters hear nothing from node i, and why.
func (all *Subscriptions) Complain(i int, c Complaint, why error) { all.each[i].complain(c, why) }

// complain reports once that waiters hear nothing from the node, and why.
func (s *subscription) complain(c Complaint, why error) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if !s.said[c] && !s.all.closed {
		s.said[c] = true
		s.link.Report(node.Fact{What: node.Deaf, Why: why})
	}
}

// listen makes one subscription and reads from it until it breaks.
func (s *subscription) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.all.mu.Lock()
	s.endConn = cancel
	s.all.mu.Unlock()
	if err := s.link.Unreached(); err != nil { // After endConn is set, or the node's end might go unnoticed.
		return err
	}
	limit := s.link.ConnectTimeout
	borrowing, stop := context.WithTimeout(ctx, limit)
	w, err := s.link.Source.Borrow(borrowing)
	stop()
	if err != nil {
		return err
	}
	unwatch := context.AfterFunc(ctx, w.Abort)
	var pings sync.WaitGroup
	defer func() {
		// Aborted in any case: a subscribed connection is of no use to its pool.
		cancel()
		unwatch()
		w.Abort()
		pings.Wait()
		w.GiveBack()
	}()
	if err = s.subscribe(ctx, w, limit); err != nil {
		return err
	}
	if s.turned(true) {
		s.all.Changed()
	}
	pings.Go(func() { ping(ctx, w) })
	return s.read(w, node.IdlePing+limit)
}

func (s *subscription) subscribe(ctx context.Context, w *conn.Wire, limit time.Duration) error {
	if err := w.Abortable(ctx); err != nil {
		return err
	}
	if err := w.Send("SUBSCRIBE", s.all.Channel); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	reply, err := w.Receive(limit)
	if err != nil {
		return fmt.Errorf("SUBSCRIBE: %w", err)
	}
	if kind, _, ok := push(reply); !ok || kind != "subscribe" {
		return errNotPushed
	}
	return nil
}

// read reads messages until the connection breaks, or is silent for limit, without even the answer to a PING.
func (s *subscription) read(w *conn.Wire, limit time.Duration) error {
	for {
		reply, err := w.Receive(limit)
		if err != nil {
			return err
		}
		kind, payload, ok := push(reply)
		if !ok {
			return errNotPushed
		}
		if kind == "message" {
			s.all.Message(s.index, payload)
		}
	}
}

// ping keeps an idle subscription alive, and finds out when its connection has broken.
func ping(ctx context.Context, w *conn.Wire) {
	t := time.NewTicker(node.IdlePing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if w.Send("PING") != nil || w.Flush() != nil {
			return // The reader notices as well.
		}
	}
}

// push reads a message to a subscribed connection: its kind, and its last value, the payload.
func push(reply any) (kind, payload string, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) < 2 {
		return "", "", false
	}
	first, ok := values[0].([]byte)
	last, _ := values[len(values)-1].([]byte) // Of a subscribe, it is a number.
	return string(first), string(last), ok
}
