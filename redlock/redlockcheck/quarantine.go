package redlockcheck

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// useQuarantine is part of an advice: the option, of the library and of the tool.
const useQuarantine = "use quarantine (WithQuarantine, --quarantine)"

// quarantine reports whether the node may vote, by its marker. Without quarantine it finds something only if other
// clients have it.
func (s *survey) quarantine(f *facts) Finding {
	m := quarantine.ParseMarker(f.marker)
	of, n := m.Sizes(), len(s.nodes)
	if s.Quarantine == 0 && m.Run == "" {
		return Finding{}
	}
	if s.Quarantine == 0 {
		return amiss(Warning,
			fmt.Sprintf("Give all clients the same one (WithQuarantine, --quarantine %v); if none has it any more, delete the key %s", m.MaxTTL, words(s.marker())),
			"its other clients have quarantine (with %s and a maxTTL of %v), and this one has none: it takes the locks that they hold back after a restart", of, m.MaxTTL)
	}
	const advice = "Wait until it is over; or, if no lock can be held that the node does not have, admit it (redlock admit, or Admit)"
	lasts := max(m.MaxTTL, s.Quarantine) + quarantine.Margin
	left := m.Since.Add(lasts).Sub(time.Now().Add(f.offset))
	votes := m.Votes && m.MaxTTL >= s.Quarantine || f.timeErr == nil && left <= 0
	switch {
	case f.info.Run() == "":
		return amiss(Unfit, remedy("info", f.infoErr, "use a server that tells it"),
			"it does not tell its run_id, without which it grants no lock to clients with quarantine")
	case f.markerErr != nil:
		return unknown(f.markerErr, "Grant the rights of docs/operations.md")
	case m.Run == "":
		return amiss(Warning, advice, "it is new or has lost its data, and its first lock begins a quarantine of %v", lasts)
	case !m.Fits(n):
		return amiss(Unfit, "Give all clients the same nodes; to change them, see docs/operations.md#changing-the-set",
			"it is set up for clients with %s, and this one has %d", of, n)
	case m.Run != f.info["run_id"]:
		return amiss(Warning, advice, "it has restarted, and its next lock begins a quarantine of %v", lasts)
	case !votes && f.timeErr != nil:
		return amiss(Warning, advice, "it is in quarantine, and its clock cannot be read to say for how long")
	case !votes:
		return amiss(Warning, advice, "it is in quarantine for another %s", brief.Duration(min(left, lasts)))
	case m.MaxTTL > s.Quarantine:
		return amiss(Warning, "Give all clients the same quarantine (WithQuarantine, --quarantine); to make it smaller, see docs/operations.md",
			"it votes, and abstains for %v after a restart, as it was asked by a client with that maxTTL; this one's is %v", m.MaxTTL, s.Quarantine)
	case !m.Knows(n):
		return amiss(Warning, "Give all clients the same nodes, unless you begin to change them; see docs/operations.md#changing-the-set",
			"it votes, for clients with %s; the first with %d makes it refuse all with another number, until redlock admit", of, n)
	case m.Other > 0:
		return amiss(Warning, "When all clients have the same nodes, and the longest ttl has passed, admit it (redlock admit, or Admit)",
			"it votes, for clients with %s, and refuses all with another number", of)
	default:
		return fine("it votes, for clients with %s and a maxTTL of up to %v", of, s.Quarantine)
	}
}
