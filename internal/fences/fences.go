// Package fences knows the counters of fencing; package lease, which fence follows from those of a quorum.
// The scripts that raise and keep counters are in package redlock.
package fences

import "github.com/seed6c881748/redlock/internal/node"

// Mark begins the names of counters. Next to its lock every resource has a counter, a key that outlives the
// lock. A grant raises the counters of all its resources to one value, which is above all that they have been.
const Mark = "f:"

// Max is the largest fence: up to it, Lua's numbers are exact. A counter that has reached it grants nothing.
const Max = 1<<53 - 1

// Decode reads the fence of a grant; decode reads the other answers.
func Decode(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		var fence, found any = reply, int64(0)
		if told, ok := reply.([]any); ok && len(told) == 2 {
			fence, found = told[0], told[1]
		}
		n, ok := fence.(int64)
		if below, tells := found.(int64); ok && tells && n > 0 && n <= Max && 0 <= below && below <= n {
			return node.Outcome{Stance: node.Yes, Fence: n, Found: below}
		}
		return decode(reply)
	}
}
