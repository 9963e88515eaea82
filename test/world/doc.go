// Package world has the rules of one node (internal/node) run beside a network and a server that the tests play. A
// search tries what may happen, in any order, and holds each state against what must never be.
package world
