package compat

import (
	"fmt"
	"sync"
)

// A referee knows who is in a section that its key protects. It is asked by a client that has
// the lock, when it has got it and before it gives it back. So two in one section
// at a time have had the lock at the same time.
type referee struct {
	mu       sync.Mutex
	inside   map[string]string // By key, who.
	turns    map[string]int    // By who, how many sections it has been in.
	handOns  int               // How often a key went from one kind of client to another.
	before   map[string]string // By key, who was inside last.
	overlaps []string
}

func newReferee() *referee {
	return &referee{inside: map[string]string{}, turns: map[string]int{}, before: map[string]string{}}
}

func (r *referee) enter(who string, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns[who]++
	for _, k := range keys {
		if other, ok := r.inside[k]; ok {
			r.overlaps = append(r.overlaps, fmt.Sprintf("%s has %s while %s has it", who, k, other))
		}
		if r.before[k] != who {
			r.handOns++
		}
		r.inside[k], r.before[k] = who, who
	}
}

func (r *referee) leave(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		delete(r.inside, k)
	}
}

func (r *referee) overlapped() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overlaps
}
