// Package testcluster runs N independent Redis nodes for tests and examples,
// together with the faults a quorum lock has to survive: slow, frozen,
// unreachable, restarted and forgetful nodes.
//
// There are three kinds of cluster, which share one API:
//
//   - [NewBubble]: in-memory servers without sockets, made to be created inside
//     a testing/synctest bubble, where keys expire by the bubble's fake clock.
//   - [StartEmbedded]: the same in-memory servers behind loopback TCP ports.
//   - [StartServers]: real redis-server or valkey-server processes.
//
// The package needs no testing.TB: every constructor returns an error, and
// [Cluster.Close] ends everything that the cluster started. It never imports
// the library it helps to test, so that in-package tests can import it.
package testcluster
