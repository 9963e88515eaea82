package fitness

import (
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// facts are what was read of one node. What was not read is empty, with the reason
// in the error beside it.
type facts struct {
	node string

	down  error // why it could not be asked; nothing else is known then
	alive bool  // down, but the connection that locks use is answered

	info     conn.Info
	infoErr  error
	database string // which one is selected
	astray   error  // the connection, or the one that locks would use, is in the wrong database
	fsync    string // appendfsync
	lenient  string // no-appendfsync-on-rewrite
	fsyncErr error

	timeoutSetting string // timeout: after how many seconds it closes an idle connection
	timeoutErr     error

	rtt     time.Duration // the shortest round trip
	offset  time.Duration // of its clock against ours, ± rtt/2; see timeErr
	timeErr error
	probed  bool     // the probe has run
	denials []denial // of what the library needs
	outside string   // why a key outside the reserved key space is refused; empty: it is not

	undeclaredKeys string // why scripts may use no key that they were not given; empty: they may

	marker    string // the quarantine's, as it is stored; empty: there is none
	markerErr error
}
