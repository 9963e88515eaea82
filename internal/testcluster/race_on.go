//go:build race

package testcluster

// RaceEnabled: the race detector makes everything several times slower, so tests of many rounds
// make fewer of them.
const RaceEnabled = true
