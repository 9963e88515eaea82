package node

import (
	"os"
	"testing"
)

// Require skips a test where node-redlock cannot be run. Where CI=true it fails.
func Require(t *testing.T) {
	t.Helper()
	err := Install()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("node-redlock cannot be run here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
