//go:build race

package snippets

// raceFlag has go commands find in the build cache what these tests themselves were built from.
const raceFlag = "-race=true"
