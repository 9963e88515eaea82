package redlockhttp

import (
	"errors"
	"fmt"

	"github.com/seed6c881748/redlock/redlock"
)

// eventOf returns the event in the form that the page shows.
func eventOf(e *redlock.Event) Event {
	v := Event{
		Time: e.Time.Round(0), Kind: string(e.Kind), Level: "info", Node: e.Node, Resources: listed(e.Resources), Names: len(e.Resources), Owner: e.Owner,
		Held: millis(e.Held), Error: text(e.Err), Note: note(e),
	}
	if isWarning(e) {
		v.Level = "warning"
	}
	for _, vote := range e.Votes {
		v.Votes = append(v.Votes, vote.String())
	}
	return v
}

// note returns a text about an event's own fields.
func note(e *redlock.Event) string {
	switch e.Kind {
	case redlock.EventNodeCleaned:
		return fmt.Sprintf("%d of unknown outcome, %d released", e.Unknown, e.Cleaned)
	case redlock.EventOverloaded:
		return fmt.Sprintf("%d turned away", e.TurnedAway)
	default:
		return ""
	}
}

// isWarning reports whether somebody should look at the event: not if all is well again, nor if an end was intended.
func isWarning(e *redlock.Event) bool {
	switch e.Kind {
	case redlock.EventNodeUp, redlock.EventNodeCleaned, redlock.EventSetsAgree:
		return false
	case redlock.EventSetsDiffer:
		return !e.Set.QuorumsMeet
	case redlock.EventHoldEnded:
		return errors.Is(e.Err, redlock.ErrLost)
	default:
		return true
	}
}
