package stored

import (
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// NotesCommand returns a command, and its arguments, that asks a node for the notes in which its clients say of which
// nodes their sets are. The answer is a string for [SetDifferences]. The command writes no note of the caller's own.
func (k Keys) NotesCommand() (name string, args []any) {
	command := sets.Question(k.Prefix + Reserved)
	return command[0].(string), command[1:]
}

// SetDifferences compares a set of nodes with those of other clients, as [redlock.EventSetsDiffer] does. nodes are the
// names of the set's nodes, and answers what each has just answered to [Keys.NotesCommand]. Of a node whose answer is
// missing, empty or no notes, nothing is known. setName is that of [redlock.WithSetName]: sets with other names are not
// compared.
func SetDifferences(setName string, nodes, answers []string) []redlock.SetDifference {
	all := make([]string, len(nodes))
	copy(all, answers)
	return settings.SetDifferences(setName, nodes, all).([]redlock.SetDifference)
}
