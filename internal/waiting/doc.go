// Package waiting keeps the calls that wait for resources in this process in order, and knows
// who of them is to ask the nodes, and when.
//
// It does no I/O and knows no node: it is told of messages, and tells the next process in
// line by a function that it is given. Keys are strings, releases have the digest of their
// token as a name, and answers of nodes are errors that it hands on unread.
package waiting
