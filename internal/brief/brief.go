// Package brief is for texts that people read: durations with few digits, counts of things, and text that can be shown
// as it is. It knows nothing else of the library.
package brief

import (
	"strconv"
	"strings"
	"time"
)

// Duration returns d as text, with no more digits than people read.
func Duration(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs >= 10*time.Second:
		d = d.Round(time.Second)
	case abs >= 10*time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

// Count returns a number of things as text: 1 node, 3 nodes.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// IsPrintable reports whether a text can be shown as it is.
func IsPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}
