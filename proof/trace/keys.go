package trace

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// keys are those that a server uses for locks, followed from command to command: MONITOR does not show replies, but what a
// command does follows from what was there. A key is one for locks once SET has made it with an end, and with NX or in a
// script.
//
// A command is carried out at an instant between the stamps of the line before it and of its own. Whether a key has
// expired by then may not be known; then the key is read, and so is one that was not seen before.
type keys struct {
	db   int
	step func(history.Event) // Is told of each step.
	read func(name string)   // Has a key read: found gets what it is.

	all    map[string]*key
	counts map[string]int64 // The counters of fences, by the keys of their locks, as far as they are known.

	from, to int64 // Between these, by the server's clock, the command of this line was carried out.
	last     int64 // The stamp of this line.
	number   int   // Of the request whose command it is.
	request  []string
	client   string          // Whose it is.
	multi    map[string]bool // Clients that have begun a transaction, whose commands see the time at which it is carried out.
	digests  map[string]bool // Of the request's arguments, nil until they are needed.
}

func newKeys(step func(history.Event), read func(name string)) keys {
	return keys{
		step: step, read: read,
		all: make(map[string]*key), counts: make(map[string]int64), multi: make(map[string]bool),
	}
}

// A key is what is known of one.
type key struct {
	known    bool
	asked    bool   // It is being read.
	holder   string // The digest of its value; "": there is none.
	owner    string // The label in its value.
	granted  int    // The request that gave it to the holder.
	from, to int64  // It expires after from and not after to; 0: never.

	asker, askersOwner string // Who asked for it last when it was not known whether it was free.
}

const ms = int64(time.Millisecond)

// own is in the name of each key that redlock keeps beside its locks, and counters in those of fences.
const (
	own      = "__redlock__:"
	counters = own + "f:"
)

// What a key is, as far as that is known.
type presence int

const (
	unknown presence = iota
	absent
	present
)

// is says what the key is when the command of this line is carried out.
func (k *keys) is(x *key) presence {
	switch {
	case !x.known:
		return unknown
	case x.holder == "" || x.to > 0 && k.from > x.to:
		return absent
	case x.to == 0 || k.to <= x.from:
		return present
	}
	return unknown
}

// take follows a SET on a key that is followed.
func (k *keys) take(name string, x *key, value string, life int64, free bool) {
	holder, owner := Digest(value), label(value)
	switch is := k.is(x); {
	case is == present && free:
	case is == present && x.holder != holder:
		k.odd(name, "SET without NX took the key from "+x.holder+" for "+holder)
		k.give(name, x, history.StepGrant, holder, owner, life)
	case is != absent && x.known && x.holder == holder && !free:
		k.give(name, x, history.StepExtend, holder, owner, life)
	case is == unknown && free:
		k.tell(history.StepAsked, name, holder, owner, life)
		x.asker, x.askersOwner = holder, owner
		k.lose(name, x)
	default:
		k.expired(name, x)
		x.granted = k.number
		k.give(name, x, history.StepGrant, holder, owner, life)
	}
	if life <= 0 && x.holder == holder {
		k.odd(name, "the key of "+holder+" has no end")
	}
}

// give notes whose a key is, and until when.
func (k *keys) give(name string, x *key, op, holder, owner string, life int64) {
	x.known, x.holder, x.owner, x.from, x.to = true, holder, owner, 0, 0
	if life > 0 { // It is counted in whole ms, and the last of them is not over before the key is.
		x.from, x.to = k.from+life-ms, k.to+life+ms
	}
	k.tell(op, name, holder, owner, life)
}

// lose notes that a key is not known any more, and has it read.
func (k *keys) lose(name string, x *key) {
	x.known = false
	k.other([]string{name})
}

// expired tells that a key has, if its holder had not released it.
func (k *keys) expired(name string, x *key) {
	if x.known && x.holder != "" { // It was there until then at least, by the server's clock.
		k.step(history.Event{Op: history.StepExpire, From: x.from, Resources: []string{name}, Holder: x.holder, Owner: x.owner})
	}
	x.known, x.holder, x.owner = true, "", ""
}

// del follows the deletion of a key.
func (k *keys) del(name string) {
	x := k.all[name]
	if x == nil {
		return
	}
	switch is := k.is(x); {
	case is == present, is == unknown && x.known && k.names(x.holder):
		if !k.names(x.holder) {
			k.odd(name, "the key of "+x.holder+" was deleted by a command that does not name its token")
		}
		k.tell(history.StepRelease, name, x.holder, x.owner, 0)
		x.holder, x.owner = "", ""
	case is == absent:
		k.expired(name, x)
	default:
		k.expired(name, x)
		k.tell(history.StepFound, name, "", "", 0)
	}
}

// expire follows a change of when a key ends.
func (k *keys) expire(name string, life int64) {
	x := k.all[name]
	if x == nil || strings.Contains(name, own) {
		return
	}
	switch k.is(x) {
	case present:
		op := history.StepExtend
		if x.to > 0 && k.to+life < x.from {
			op = history.StepShorten
		}
		if !k.names(x.holder) {
			k.odd(name, "the end of the key of "+x.holder+" was changed by a command that does not name its token")
		}
		k.give(name, x, op, x.holder, x.owner, life)
	case absent:
		k.expired(name, x)
	case unknown:
		if x.known {
			k.tell(history.StepAsked, name, x.holder, x.owner, life)
		} else if k.names(x.asker) { // When it has been read, the call may have returned.
			k.tell(history.StepAsked, name, x.asker, x.askersOwner, life)
		}
		k.lose(name, x)
	}
}

// count follows the counter of a resource. Nothing makes it smaller, and a lock that is granted has a number of its own.
func (k *keys) count(name string, n int64) {
	name = strings.Replace(name, counters, "", 1)
	last, known := k.counts[name]
	x, is := k.all[name], unknown
	if x != nil {
		is = k.is(x)
	}
	grants := is == absent || is == present && x.granted == k.number
	if known && (n < last || grants && n == last) {
		k.odd(name, fmt.Sprintf("the counter of fences went from %d to %d", last, n))
	}
	if k.counts[name] = n; is == present {
		k.tell(history.StepCount, name, x.holder, x.owner, 0)
	}
}

// flush follows FLUSHALL.
func (k *keys) flush() {
	for _, x := range k.all {
		*x = key{known: true, asked: x.asked}
	}
	clear(k.counts)
	k.step(history.Event{Op: history.StepWiped})
}

// other follows a command that names keys, and has these read: it may have changed one, or not.
func (k *keys) other(names []string) {
	for _, name := range names {
		if x := k.all[name]; x != nil && !x.asked {
			x.asked = true
			k.read(name)
		}
	}
}

// reread has all keys read that somebody may have.
func (k *keys) reread() {
	for _, name := range k.forget() {
		k.lose(name, k.all[name])
	}
}

// found takes what the key was when it was read, at this line: its value, and for how long yet, as PTTL says it.
func (k *keys) found(name string, value *string, left int64) {
	x := k.all[name]
	if x == nil {
		return
	}
	x.asked = false
	holder, owner := "", ""
	if value != nil {
		holder, owner = Digest(*value), label(*value)
	}
	life, is := left*ms, k.is(x)
	switch {
	case is == present && holder != x.holder || is == absent && holder != "":
		k.odd(name, fmt.Sprintf("the key is of %q, and was of %q: no command has done that", holder, x.holder))
	case is == present && x.to > 0 && (k.to+life < x.from-exact || k.from+life > x.to+exact):
		k.odd(name, "the key of "+x.holder+" ends at another time: no command has done that")
	case is != unknown:
		return
	}
	if holder == "" {
		x.known, x.holder, x.owner = true, "", ""
		k.tell(history.StepFound, name, "", "", 0)
		return
	}
	k.give(name, x, history.StepFound, holder, owner, life)
	if left >= 0 {
		x.from, x.to = k.from+life-exact, k.to+life+exact
	}
}

// exact is by how much the end of a key may differ from what PTTL says, in whole ms.
const exact = 2 * ms

// sweep tells which keys have expired.
func (k *keys) sweep() {
	for name, x := range k.all {
		if x.known && x.holder != "" && k.is(x) == absent {
			k.expired(name, x)
		}
	}
}

// forget is called when commands may have been missed: nothing is known then. It returns the keys that somebody may have.
func (k *keys) forget() (live []string) {
	for name, x := range k.all {
		if !x.known || x.holder != "" {
			live = append(live, name)
		}
		x.known, x.asked = false, false
	}
	clear(k.counts)
	clear(k.multi)
	return live
}

func (k *keys) tell(op, name, holder, owner string, life int64) {
	k.step(history.Event{Op: op, Resources: []string{name}, Holder: holder, Owner: owner, TTL: life, Fence: k.counts[name]})
}

func (k *keys) odd(name, why string) {
	k.step(history.Event{Op: history.StepOdd, Resources: []string{name}, Detail: why})
}
