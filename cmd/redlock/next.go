package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// longWait is how long somebody waits until status says what to do about it.
const longWait = 5 * time.Minute

// nextStep says what to look at where a node has not said who holds a resource.
func nextStep(err error) string {
	var reply redis.Error
	var name *net.DNSError
	var op *net.OpError
	text := err.Error()
	is := func(codes ...string) bool {
		for _, code := range codes {
			if strings.HasPrefix(string(reply), code) {
				return true
			}
		}
		return false
	}
	switch replied := errors.As(err, &reply); {
	case replied && is("NOAUTH", "WRONGPASS", "NOPERM"):
		return "compare the user, the password and the rights with those on the server (docs/operations.md#rights)"
	case replied && is("LOADING"):
		return "its server reads its data: wait"
	case replied && is("WRONGTYPE"):
		return "the key is another program's: use a --prefix of your own"
	case replied:
		return "look at the log of its server; redlock check says whether it is fit for locks"
	case strings.HasPrefix(text, "no answer within"), errors.As(err, &op) && op.Op == "read" && op.Timeout():
		return "it answers too late, or not at all, so locks cannot count on it: look at its processor, swapping, SLOWLOG, " +
			"and the way to it; a long way needs a longer --node-timeout, here and in the programs"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: does its server run, and at this address?"
	case errors.As(err, &name):
		return "is the name of its host right, and is it known on this machine?"
	default:
		return "does its server run, and is it reached from this machine? redlock check, here and on another one, tells"
	}
}

// nextSteps says what to do about what is wrong in views, each thing once, and how near the loss of the quorum is.
func nextSteps(views []view) []string {
	if len(views) == 0 {
		return nil
	}
	var steps []string
	said := make(map[string]bool)
	for i := range views {
		away := 0
		for _, n := range views[i].sights {
			if n.err == nil {
				continue
			}
			away++
			if step := n.node + ": " + nextStep(n.err); !said[step] {
				said[step] = true
				steps = append(steps, step)
			}
		}
		if line := quorumNear(len(views[i].sights), away, views[i].need); line != "" && !said[line] {
			said[line] = true
			steps = append(steps, line)
		}
	}
	for i := range views {
		v := &views[i]
		waiters := v.waiters()
		h, held := v.held()
		if !held || len(waiters) == 0 || time.Duration(waiters[0].WaitedMS)*time.Millisecond < longWait {
			continue
		}
		steps = append(steps, fmt.Sprintf("%s: somebody has waited for %s: see what %s does, and end it there; redlock break takes the lock from it",
			printable(v.resource), shortly(msOf(waiters[0].WaitedMS)), who(h.token)))
	}
	return steps
}

// quorumNear says that the quorum is lost, or would be with one more node.
func quorumNear(nodes, away, need int) string {
	line := fmt.Sprintf("%d of %s answer, %d needed: ", nodes-away, count(nodes, "node"), need)
	switch {
	case away == 0:
		return ""
	case nodes-away < need:
		return line + "no lock can be got or extended: bring back any of the nodes, with its data"
	case nodes-away == need:
		return line + "restore a node before you restart another one"
	default:
		return ""
	}
}

// showNextSteps writes what to do about what is wrong in views.
func (t *tool) showNextSteps(w io.Writer, views []view) {
	steps := nextSteps(views)
	if t.global.json || len(steps) == 0 {
		return
	}
	printf(w, "\n%s\n", t.styleFor(w).bold("what to do"))
	for _, step := range steps {
		t.foldf(w, "  %s\n", step)
	}
}
