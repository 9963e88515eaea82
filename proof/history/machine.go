package history

import (
	"os/exec"
	"strings"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Commit is that of the code that is run, and says whether it was changed since.
func Commit() string { return output("git", "describe", "--always", "--dirty") }

// Server is what the server says of itself.
func Server() string {
	bin, err := testcluster.ServerBinary()
	if err != nil {
		return ""
	}
	return output(bin, "--version")
}

// output is what a program says, or nothing.
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out))
}
