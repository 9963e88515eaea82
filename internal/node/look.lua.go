package node

import _ "embed"

// A lookTask asks which of some tokens have keys on the node.
type lookTask struct {
	keys, tokens []any
	releases     []*dueRelease
	of           []int // by key: which of them
}

func (l *lookTask) add(e *dueRelease) {
	for _, key := range e.trace.owner.Keys() {
		l.keys, l.tokens, l.of = append(l.keys, key), append(l.tokens, e.trace.owner.Value()), append(l.of, len(l.releases))
	}
	l.releases = append(l.releases, e)
}

// found reads which of the tokens the node has keys of.
func (l *lookTask) found(held []any) []bool {
	found := make([]bool, len(l.releases))
	for _, place := range held {
		if i, ok := place.(int64); ok && i > 0 && i <= int64(len(l.of)) {
			found[l.of[i-1]] = true
		}
	}
	return found
}

//go:embed look.lua
var lookText string

// Look tells which keys still hold a token.
var Look = NewScript("look", Code(lookText), func(reply any) Outcome {
	if _, ok := reply.([]any); ok {
		return Outcome{Stance: Yes}
	}
	return Unexpected("look", reply)
})
