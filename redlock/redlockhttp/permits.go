package redlockhttp

import "github.com/seed6c881748/redlock/redlock/semaphore"

// An Option changes what a [Handler] shows.
type Option func(*handler)

// WithSemaphores names semaphores of package semaphore, as they were given to semaphore.New: the page shows the
// permits of each, and the calls that wait for one, together. A permit is a lock on a resource such as
// "resize#3", which a user may have named so for something else: only a semaphore that is named here is known
// as one. Default: none, and permits are shown as the locks that they are.
func WithSemaphores(names ...string) Option {
	return func(h *handler) {
		for _, name := range names {
			for number, resource := range semaphore.Slots(name, semaphore.MaxPermits) {
				h.slots[resource] = slot{name, &number}
			}
		}
	}
}

// A slot is what the state says about a permit beside its resource; the zero value for other locks.
type slot struct {
	semaphore string
	number    *int
}

// slotOf returns the slot that the resources of a lock stand for.
func (h handler) slotOf(resources []string) slot {
	if len(resources) != 1 {
		return slot{}
	}
	return h.slots[resources[0]]
}
