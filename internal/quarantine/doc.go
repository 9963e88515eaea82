// Package quarantine keeps a node that has restarted from voting until every lock that it may
// have forgotten has ended. It wraps each script that grants, whatever it does, in one that first
// looks at the marker of the node's run. A node sends the wrapped scripts because of its [Dialect].
//
// It knows the marker, the runs of a server and maxTTL. It does not know what a script grants, nor
// how many votes make a lock.
package quarantine
