package waiting

import (
	"container/list"
	"time"
)

// A Waiter is a call of Lock that waits.
type Waiter struct {
	began  time.Time
	keys   []string
	delay  time.Duration // between its timed retries
	notify func()        // it is to look at the fields below

	Caller any // to whom a lock may be passed on by who has it; nil: to nobody. Set before it joins

	places    []*list.Element // in the lines of the keys, in their order; none: in no line
	head      bool
	inLine    bool      // its latest attempt was to get in line on the nodes
	now       bool      // it is to try at once: it has become head, or can get in line now
	tryAt     time.Time // when the next attempt because of a release is due; zero: none
	keepUntil time.Time // when the next in line is to be told of what w was told of; zero: it was not
	keptFor   string    // the holder for whose release it has done so

	sleeps bool // it may be passed a lock
	passed any  // what it was passed; nil: nothing. It is in no line then

	// Space for one key: most locks have one.
	oneKey   [1]string
	onePlace [1]*list.Element
}

// NewWaiter returns a waiter for the keys: strings, each once, in the same order for all waiters. delay is the time
// between its timed retries, began the time of its call. notify must have it look at its [State] again.
func NewWaiter(keys []any, delay time.Duration, began time.Time, notify func()) *Waiter {
	w := &Waiter{began: began, delay: delay, notify: notify}
	w.keys, w.places = w.oneKey[:0], w.onePlace[:0]
	for _, key := range keys {
		w.keys = append(w.keys, key.(string))
	}
	return w
}

// Began is when its call began.
func (w *Waiter) Began() time.Time { return w.began }

// A State is how things stand with a waiter.
type State struct {
	Head      bool      // it is first in all its lines, and no turn it takes part in lasts: it asks the nodes
	Now       bool      // it is to try at once: it has become head, or can get in line on the nodes now
	Alone     bool      // nobody may ask as often as it would: a line of its has no head, or several retry delays
	TryAt     time.Time // when it is to try because of a release; zero: of none
	KeepUntil time.Time // when PassOn is due; zero: it is not
}
