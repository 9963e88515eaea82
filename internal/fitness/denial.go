package fitness

import "regexp"

// A denial is a command that the server does not run for this client, as an ACL
// names it, and what it says.
type denial struct {
	right, says string
}

// passingRE finds the errors of a server that refuses commands for what state it is
// in, not for who asks.
var passingRE = regexp.MustCompile(
	`\b(OOM|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|MOVED|LOADING|BUSY|MASTERDOWN)\b`)

func (d denial) isPassing() bool { return passingRE.MatchString(d.says) }
