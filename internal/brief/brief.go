// Package brief writes values as people read them.
package brief

import "time"

// Duration is d with no more digits than one reads.
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
