//go:build !race

package testcluster

// RaceEnabled is false without the race detector.
const RaceEnabled = false
