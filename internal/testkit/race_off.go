//go:build !race

package testkit

// RaceEnabled is false without the race detector.
const RaceEnabled = false
