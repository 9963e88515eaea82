// This file has parts of sentences. What is said of a client is in hear.go, and on its card in page/page.js.

package main

import (
	"fmt"
	"strings"
	"time"
)

// need is the majority of five.
const need = 3

// nodesText is "node 3", "nodes 1, 2 and 4", or "no node".
func nodesText(names []string) string {
	switch len(names) {
	case 0:
		return "no node"
	case 1:
		return "node " + names[0]
	default:
		last := len(names) - 1
		return "nodes " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
}

// verb is the form that goes with so many of them.
func verb(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// count is a number of nodes.
func count(n int) string { return []string{"None", "One", "Two", "Three", "Four", "Five"}[n] }

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", max(d, 0).Seconds()) }

// fenceText is a fence without the part that all of them share: they begin with the clock, in µs.
func (p *playground) fenceText(fence int64) string {
	return fmt.Sprint(max(fence-p.start.UnixMicro(), 0))
}
