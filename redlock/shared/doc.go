// Package shared has locks that many may hold to read, or one to write, over the nodes of a [redlock.Redlock].
//
// A name has 32 slots, each of them a resource, and a turnstile, which is one more. All readers of a process share an
// ordinary lock on one slot; a writer has one lock on all slots. So what is promised of locks holds: by the clocks of both,
// no writer has the name beside anybody else. What a killed process has ends with its ttl, while others go on.
//
// The turnstile is for the order only: a writer stands there until the readers have gone, and readers who come later wait
// in line behind it. Readers of a process join those that are there without asking the nodes, for 10 ms after a look at
// the turnstile. So a writer that is next waits for those that are there, and those that come within 10 ms.
//
//   - A plain lock on the same name, by redlock or other libraries, excludes nobody here.
//   - No more than 32 processes (Mutexes) read at the same time; others wait.
//   - There is no upgrade from reading to writing, which could only deadlock, no downgrade, and no reentrancy.
//   - A Reader that nobody unlocks keeps writers out, as long as the process lives. [redlock.WithMaxHold] sets a limit: who
//     joins has what is left of it.
//
// Options of New are those of the locks on slots. With [redlock.WithFencing] a writer's fence is above those of all who had
// the name before it, and below those of all who come later. With [redlock.WithTurn] a writer passes its lock only to one
// that is next at the turnstile, so the order stays. With [redlock.WithPolling] nobody stands in line. See docs/shared.md.
package shared
