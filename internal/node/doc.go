// Package node is about one Redis master: a pipeline that all callers share, which never
// loses a release and settles every request whose outcome a broken connection has left
// unknown.
//
// It knows scripts, tokens and replies. What a script asks for, who holds what, and how
// many nodes there are, it does not know. What goes up goes through small interfaces: a
// [Voter] gets the answer to a request, an [Observer] hears what becomes of the connection, a
// [TokenOwner] says how its token is released, and a [Dialect] changes how scripts are
// sent. [Subscriptions] bring messages.
//
// The mutexes: a node's and that of Subscriptions are never held together, nor are those of
// two nodes. Observers, token owners and dialects are called with one of them held, so they
// must not wait, and not call a node. Voters are called with none. docs/code.md has the order
// of all mutexes.
package node
