// Package quarantine keeps a node that has restarted from voting until every lock that it may
// have forgotten has ended. It wraps the scripts that grant, whatever they do, in one that looks
// at the marker of the node's run; a node sends them so by its [Dialect].
//
// It knows the marker, the runs of a server and maxTTL. It does not know what a script grants, nor
// how many votes make a lock.
package quarantine
