package fitness

import (
	"regexp"
	"strings"
)

// A denial is a command that the server does not run for this client, as an ACL
// names it, and what it says.
type denial struct {
	right, says string
}

// passingRE finds the errors of a server that refuses commands for what state it is
// in, not for who asks.
var passingRE = regexp.MustCompile(
	`\b(OOM|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|MOVED|LOADING|BUSY|MASTERDOWN)\b`)

// keyRE finds the errors about a key that the user may not use, whatever the command.
var keyRE = regexp.MustCompile(`(?i)permissions? to access (a|one of the) keys?\b|can't access at least one of the keys`)

// isRight reports whether the server has refused a command for who asks.
func isRight(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

func (d denial) isPassing() bool { return passingRE.MatchString(d.says) }
