//go:build race

package redlock

// raceEnabled: the race detector makes everything several times slower, so
// tests of many rounds make fewer of them.
const raceEnabled = true
