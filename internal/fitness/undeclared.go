package fitness

import "github.com/seed6c881748/redlock/internal/conn"

// Whether scripts may use keys that they were not given. Those of lines do, see internal/lines, and
// some servers that are like Redis refuse it, Dragonfly for one.

// undeclaredLua looks at a key whose name it makes from that of the one that it was given.
//
//	KEYS  a key of the library's
//	why that was refused; empty: it was not, or the given one is refused as well
const undeclaredLua = `
if type(redis.pcall('EXISTS', KEYS[1])) ~= 'number' then return '' end
local made = redis.pcall('EXISTS', KEYS[1] .. 'l')
return type(made) == 'table' and made.err or ''
`

// undeclared finds out why a script may use no such key. What refuses the script itself is in the
// way of more than lines, and other checks say so.
func (f *facts) undeclared(q *questions, key string) {
	if answers := q.ask([]any{"EVAL", undeclaredLua, 1, key}); answers != nil && !conn.IsReply(answers[0].Err) {
		f.undeclaredKeys, _ = answers[0].Text()
	}
}

func (s *Setup) undeclaredKeys(f *facts) Finding {
	switch {
	case f.undeclaredKeys == "":
		return fine("its scripts may use keys that they were not given")
	case s.Polling:
		return fine("its scripts may use no key that they were not given, which polling does not need")
	default:
		return amiss(Warning, "who waits for a lock has to poll: the server refuses scripts a key that they were not given ("+words(f.undeclaredKeys)+")",
			"Allow undeclared keys, or poll on purpose (WithPolling)")
	}
}
