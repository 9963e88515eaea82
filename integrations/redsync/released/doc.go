// Package released holds the drop-in against the released module of redsync: its exported names, its own tests, its
// speed, and a fleet in which both lock the same resources. It is a module of its own, so that users of the drop-in get
// neither redsync nor the six clients of Redis that redsync's tests need.
package released
