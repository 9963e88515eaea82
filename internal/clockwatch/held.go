package clockwatch

import "slices"

// This file is about which locks are held. There may be hundreds of thousands that nobody releases. Every acquisition
// needs the mutex, so no call goes through all of them with it held.

// A Lock is a lock that may be held.
type Lock interface {
	Err() error // why it has ended, nil while it is held
	Resources() []string
}

// An Entry is a lock's place in its Watch, whose mutex guards it.
type Entry struct {
	place int32 // from 1; 0: the lock is not in the watch
	wants bool  // Wanted finds it
}

// A seat is one place of the watch and the lock in it.
type seat struct {
	Lock

	entry *Entry
}

// MinSweep is how many locks there must be before ended ones are looked for.
const MinSweep = 64

// Add adds a lock. A lock that is never removed stays until after its end: each Add checks two others, so that there
// are at most about twice as many as are held.
func (k *Watch) Add(l Lock, e *Entry) {
	var others [2]seat
	k.mu.Lock()
	for i := range others {
		if len(k.locks) > MinSweep {
			k.next = (k.next + 1) % len(k.locks)
			others[i] = k.locks[k.next]
		}
	}
	k.locks = append(k.locks, seat{l, e})
	e.place = int32(len(k.locks))
	k.mu.Unlock()
	for _, other := range others {
		if other.Lock != nil && other.Err() != nil {
			k.Remove(other.Lock, other.entry)
		}
	}
}

// Remove removes a lock, if it is there.
func (k *Watch) Remove(l Lock, e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.place == 0 {
		return
	}
	if e.wants {
		for _, res := range l.Resources() {
			if k.wanted[res] == l {
				delete(k.wanted, res)
			}
		}
	}
	end := len(k.locks) - 1
	last := k.locks[end]
	k.locks[e.place-1], last.entry.place = last, e.place
	k.locks[end], *e = seat{}, Entry{}
	k.locks = k.locks[:end]
}

// Want makes Wanted find a lock by its resources, until it is removed.
func (k *Watch) Want(l Lock, e *Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.place == 0 {
		return
	}
	e.wants = true
	for _, res := range l.Resources() {
		k.wanted[res] = l
	}
}

// Wanted returns the locks on one of the resources that Want has named. It does not look at others.
func (k *Watch) Wanted(resources []string) (found []Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, res := range resources {
		if l, there := k.wanted[res]; there && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}

// Count returns how many locks are held.
func (k *Watch) Count() (held int) {
	k.each(func(Lock) { held++ })
	return held
}

// Held returns the held locks, in no order. It may contain one twice, if others are removed meanwhile.
func (k *Watch) Held() (held []Lock) {
	k.each(func(l Lock) { held = append(held, l) })
	return held
}

// each calls f with the held locks, and forgets those that have ended. It goes from the last to the first and so misses
// none: the last one takes the place of one that is removed.
func (k *Watch) each(f func(l Lock)) {
	var some [128]seat
	for rest := k.Size(); rest > 0; {
		k.mu.Lock()
		rest = min(rest, len(k.locks))
		n := copy(some[:], k.locks[max(rest-len(some), 0):rest])
		rest -= n
		k.mu.Unlock()
		for _, s := range some[:n] {
			if s.Err() != nil {
				k.Remove(s.Lock, s.entry)
			} else {
				f(s.Lock)
			}
		}
	}
}

// Size returns how many locks the watch knows, ended ones included.
func (k *Watch) Size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.locks)
}
