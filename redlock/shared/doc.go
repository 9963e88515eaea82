// Package shared has locks that many may hold to read, or one to write, over the nodes of a [redlock.Redlock].
//
// A name has 32 slots, each of them a resource, and one more resource as a turnstile. All readers of a process share an
// ordinary lock on one slot; a writer has one lock on all slots. So the promises of locks hold: by the clocks of both,
// no writer has the name beside anybody else. The locks of a killed process end with their ttl, while others go on.
//
// The turnstile only keeps the order: a writer stands there until the readers have gone, and later readers wait in line
// behind it. For 10 ms after a look at the turnstile, readers of a process join its present readers without asking the
// nodes. So the next writer waits for the present readers, and for those that come within 10 ms.
//
//   - A plain lock on the same name, by redlock or other libraries, excludes nobody here.
//   - No more than 32 processes (Mutexes) read at the same time; others wait.
//   - There is no upgrade from reading to writing, which could only deadlock, no downgrade, and no reentrancy.
//   - A Reader that nobody unlocks keeps writers out, as long as the process lives. [redlock.WithMaxHold] sets a limit:
//     a reader that joins has the rest of it.
//
// Options of New are those of the locks on slots. With [redlock.WithFencing] a writer's fence is above those of all who had
// the name before it, and below those of all who come later. With [redlock.WithTurn] a writer passes its lock only to one
// that is next at the turnstile, so the order stays. With [redlock.WithPolling] nobody stands in line. See docs/shared.md.
package shared
