// Package quorum has the rules of rounds (internal/lease) run beside nodes, connections and clocks that the tests play:
// several clients ask a few nodes for locks. A search tries what may happen, in any order, and holds each state against
// what must never be. Package world does the same with the rules of one node (internal/node).
//
// A lease.Round of each claim is the very code. Around it, the tests do what redlock/round.go and
// redlock/acquisition.go do: they send what is to be sent, set the timer, give back, take the result, and go on with a
// new claim. What is below a round is this contract, which internal/node keeps:
//
//   - The requests of one claim reach a node in the order in which they were made, as long as the connection lasts. A
//     release that is asked for behind a lock request is carried out after it, however late that is.
//   - A connection may break at any time. A request on it may have been carried out, may never be, or may be later. The
//     round is told that there is no answer. A release is sent again until it is confirmed.
//   - What comes twice, or behind its release, is released again.
//   - An answer comes to a request once at most. It may come as late as it likes, or never.
//   - A request may be refused before it is sent. That is told at once.
//   - A release is sent wherever the claim may have left something. It is not sent where a lock request was refused, and
//     no other one is on its way.
//
// And this is what a node promises, as safety.md has it:
//
//   - A key that was set lives for the validity at least, by the clock of the client that has it set: the drift is what a
//     node's clock may gain. It lives for ttl and drift at most.
//   - A node carries out one request after the other, each as a whole. A lock request sets all keys or none.
//   - The counters of fences are not lost, and grow with each grant. Where they may be lost, nothing is said of fences.
//   - Who grants a lock, or raises a counter, says what that was before, or nothing if it does not know.
//   - A node that has restarted without its data grants nothing for the longest ttl. Where that is not so, two locks may
//     overlap.
//
// The clients' clocks may stand still while their machines sleep: then they say by how much they are behind. A process
// may stand still at any time, too, its clock going on: then nothing is read, and its timers are late.
package quorum
