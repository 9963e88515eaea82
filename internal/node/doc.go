// Package node has the rules of one Redis master: what to send to it and when, what its answers mean, what a token may
// have left on it, and which releases to repeat until nothing can be left.
//
// They are a value, a [Node], without a mutex, a goroutine, a clock or a connection. Whoever drives it calls a step
// when something happens, never two at a time, with the time: a request comes ([Node.Enqueue]), the writer has room
// ([Node.Next]), a reply has come ([Node.Answer]), a connection works ([Node.Connected]) or has ended ([Node.End],
// [Node.Ended]), an instant has come that the rules have asked for ([Node.Tick], [Node.Watch]). After each step the
// driver passes on [Node.Facts], and asks [Node.Alarm] and [Node.Due] when to call again. Package link does so. A
// search can do so as well, as it controls everything that happens.
//
// The rules know scripts, tokens and replies. They do not know what a script asks for, who holds what, and how many
// nodes there are. A [Receiver] gets the answer to a request, a [TraceOwner] says how its token is released, and a
// [ConnDialect] changes how scripts are sent.
package node
