package testcluster

import (
	"math/rand/v2"
	"time"
)

// chunk is a piece of one direction's byte stream on its way.
type chunk struct {
	data []byte
	due  time.Time // Not delivered before.
	from time.Time // When a throttle takes it: until then, more may be put to it.
	late bool      // Rescued by LateBytes.
}

// lane is one direction of a link: a queue between the goroutine that reads
// from one side and the goroutine that writes to the other. All of it is
// guarded by the proxy's lock, except for wake.
type lane struct {
	queue []chunk
	last  time.Time     // The due time of the newest chunk, which keeps the order.
	eof   bool          // No more chunks will come.
	dead  bool          // Nothing will be delivered any more.
	wake  chan struct{} // Holds one token when the writer should look again.
	rng   *rand.Rand
}

func newLane(seed, sequence uint64) lane {
	return lane{wake: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(seed, sequence))}
}

// draw picks a random duration from s.
func (l *lane) draw(s span) time.Duration {
	if s.max <= s.min {
		return s.min
	}
	return s.min + time.Duration(l.rng.Int64N(int64(s.max-s.min)+1))
}

// push queues a copy of data to be delivered after a delay drawn from s and extra.
func (l *lane) push(data []byte, s span, extra time.Duration) {
	due := time.Now().Add(l.draw(s) + extra)
	if due.Before(l.last) {
		due = l.last
	}
	l.last = due
	l.queue = append(l.queue, chunk{data: append([]byte(nil), data...), due: due})
	l.signal()
}

// A throttle forwards up to size bytes at a time, at rate bytes a second.
type throttle struct{ size, rate int }

// takes returns for how long so many bytes are forwarded.
func (t throttle) takes(n int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(t.rate)
}

// throttle queues a copy of data to be delivered when its turn has come and it has been forwarded.
func (l *lane) throttle(data []byte, t throttle) {
	now := time.Now()
	if last := len(l.queue) - 1; last >= 0 && l.queue[last].from.After(now) {
		c := &l.queue[last]
		n := min(len(data), max(t.size-len(c.data), 0))
		c.data, data = append(c.data, data[:n]...), data[n:]
		c.due = c.due.Add(t.takes(n))
		l.last = c.due
	}
	for len(data) > 0 {
		n := min(len(data), t.size)
		from := now
		if l.last.After(now) {
			from = l.last
		}
		l.last = from.Add(t.takes(n))
		l.queue = append(l.queue, chunk{data: append([]byte(nil), data[:n]...), due: l.last, from: from})
		data = data[n:]
	}
	l.signal()
}

// finish tells that no more chunks will come.
func (l *lane) finish() {
	l.eof = true
	l.signal()
}

// discard empties the queue for good and returns how many bytes were in it.
func (l *lane) discard() (dropped int64) {
	for _, c := range l.queue {
		dropped += int64(len(c.data))
	}
	l.queue, l.dead = nil, true
	l.signal()
	return dropped
}

// rescue decides about the queued chunks once no more will come: those for
// which keep holds stay as they are, and the others are delayed again by a
// time drawn from s or, if s is zero, dropped. It returns how many bytes were
// dropped.
func (l *lane) rescue(keep func(chunk) bool, s span) (dropped int64) {
	queue := l.queue
	l.queue = nil
	now := time.Now()
	var last time.Time
	for _, c := range queue {
		switch {
		case keep(c):
		case s.max <= 0:
			dropped += int64(len(c.data))
			continue
		default:
			c.due, c.late = now.Add(l.draw(s)), true
		}
		if c.due.Before(last) {
			c.due = last
		}
		last = c.due
		l.queue = append(l.queue, c)
	}
	l.finish()
	return dropped
}

// signal makes the writer look again; it never blocks.
func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wait blocks until the lane is signalled or, if d isn't negative, d has
// passed.
func (l *lane) wait(d time.Duration) {
	if d < 0 {
		<-l.wake
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.wake:
	case <-t.C:
	}
}
