//go:build !race

package snippets

const raceFlag = "-race=false"
