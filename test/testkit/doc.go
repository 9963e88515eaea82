// Package testkit has what the tests of redlock share that use it as its users do: clients of a
// test cluster, a hook that records events, taps on connections, random numbers, and how often a
// test repeats what it does.
package testkit
