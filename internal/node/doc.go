// Package node is about one Redis master: a pipeline that all callers share, which never
// loses a release and settles every request whose outcome a broken connection has left
// unknown.
//
// It knows scripts, tokens and replies. What a script asks for, who holds what, and how
// many nodes there are, it does not know. What goes up goes through small interfaces: a
// [Receiver] gets the answer to a request, an [Observer] hears what becomes of the connection, a
// [TraceOwner] says how its token is released, and a [Dialect] changes how scripts are
// sent. [Subscriptions] bring messages.
package node
