package node

import (
	"errors"
	"fmt"
	"strings"
)

// The votes of a node that gives no answer, besides errors of its server and the network. Package redlock exports the
// first three.
var (
	ErrClosed     = errors.New("redlock: the Redlock is closed")
	ErrTimeout    = errors.New("redlock: node timeout")
	ErrOverloaded = errors.New("redlock: not asked, overloaded")

	ErrBacklog           = fmt.Errorf("more than %d requests wait for this node", MaxBacklog)
	errTooManyUnanswered = fmt.Errorf("%w: too many earlier locks are unanswered", ErrOverloaded)
	ErrSilent            = errors.New("the node has not answered earlier requests")
	ErrBehind            = fmt.Errorf("%w", ErrSilent) // but it is answering: it is overloaded, not stalled
	ErrUnreached         = errors.New("not connected yet")
	ErrWithdrawn         = errors.New("not asked: it had been given up, or was over")
)

// MaxBacklog bounds the requests that a node may have queued or unanswered.
// A full backlog refuses new locks, extensions, inspections and releases of other processes' locks, never a
// release of this one's: those are bounded by the locks that were let in before.
const MaxBacklog = 1 << 15

// refusals are the errors by which a server says that it has not carried out a script's first write. Behind other
// errors, such as a proxy's, it may have been carried out.
var refusals = map[string]bool{
	"NOPERM": true, "NOAUTH": true, "WRONGTYPE": true, "OOM": true, "MISCONF": true, "READONLY": true,
	"LOADING": true, "BUSY": true, "NOREPLICAS": true, "MASTERDOWN": true, "CLUSTERDOWN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true,
}

// isUndone reports whether an error says that a command was not carried out.
func isUndone(code string, err error) bool {
	return refusals[code] || code == "ERR" && strings.Contains(err.Error(), "unknown command")
}
