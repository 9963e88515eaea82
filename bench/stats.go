package main

import (
	"fmt"
	"slices"
	"time"
)

// median returns the middle of the values, the mean of the two middle ones if
// their number is even, and 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// percentile returns the smallest value that at least p % of the sorted ones do
// not exceed, and 0 if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// each returns what f gives for every item.
func each[T any](items []T, f func(T) float64) []float64 {
	values := make([]float64, len(items))
	for i, item := range items {
		values[i] = f(item)
	}
	return values
}

// ratios returns a[i]/b[i]. Rounds in which either is 0 say nothing.
func ratios(a, b []float64) []float64 {
	var r []float64
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

// number formats a figure that is 0 only where it could not be measured.
func number(f float64, format string) string {
	if f <= 0 {
		return "-"
	}
	return fmt.Sprintf(format, f)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", micros(d)/1000) }
