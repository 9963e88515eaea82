// Package link drives a node: it has the node's mutex, connection, goroutines and timers, and carries out the rules of
// package node. It decides nothing that a lock depends on.
//
// A [Link] has one pipeline at a time to its Redis master, which all callers share. Results leave it through small
// interfaces: a [node.Receiver] gets the answer to a request, a [node.TraceOwner] says how its token is released, and a
// [Dialect] changes how scripts are sent. Facts go to one function, and [Subscriptions] bring messages.
package link
