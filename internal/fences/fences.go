// Package fences knows the counters of fencing. Package lease knows which fence follows from a quorum's counters, and
// package redlock has the scripts that raise and keep counters.
package fences

import "github.com/seed6c881748/redlock/internal/node"

// Mark begins the names of counters. Every resource has a counter next to its lock, a key that outlives the lock. A
// grant raises the counters of all its resources to one value, which is above all earlier ones.
const Mark = "f:"

// Max is the largest fence: Lua's numbers are exact up to it. A node whose counter has reached it grants nothing.
const Max = 1<<53 - 1

// Decode returns a function that reads the fence of a grant; decode reads the other answers.
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
