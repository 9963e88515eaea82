package fitness

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// useQuarantine is part of an advice: the option, of the library and of the tool.
const useQuarantine = "use quarantine (WithQuarantine, --quarantine)"

// quarantined says whether the node may vote, by its marker. Without quarantine it says something
// only if others have it.
func (s *Setup) quarantined(f *facts) (found Finding, ok bool) {
	m := s.ParseMarker(f.marker)
	if s.Quarantine != nil {
		return s.voting(f, m), true
	}
	if m.Run == "" {
		return Finding{}, false
	}
	return amiss(Warning, fmt.Sprintf("its other clients have quarantine (with %s and a maxTTL of %v), and this one has none: it takes the locks that they hold back after a restart",
		brief.Count(m.Nodes, "node"), m.MaxTTL),
		fmt.Sprintf("Give all clients the same one (WithQuarantine, --quarantine %v); if none has it any more, delete the key %s", m.MaxTTL, words(s.MarkerKey))), true
}

// voting says whether the node votes for this client, which has quarantine.
func (s *Setup) voting(f *facts, m Marker) Finding {
	const advice = "Wait until it is over; or, if no lock can be held that the node does not have, admit it (redlock admit, or Admit)"
	lasts := max(m.MaxTTL, s.Quarantine.MaxTTL) + s.Quarantine.Margin
	left := m.Since.Add(lasts).Sub(time.Now().Add(f.offset))
	votes := m.Votes && m.MaxTTL >= s.Quarantine.MaxTTL || f.timeErr == nil && left <= 0
	switch {
	case f.info.Run() == "":
		return amiss(Unfit, "it does not tell its run_id, without which it grants no lock to clients with quarantine",
			"Grant the right +info, or use a server that tells it")
	case f.markerErr != nil:
		return unknown(f.markerErr, "Grant the rights of docs/operations.md")
	case m.Run == "":
		return amiss(Warning, fmt.Sprintf("it is new or has lost its data, and its first lock begins a quarantine of %v", lasts), advice)
	case m.Nodes != s.Nodes:
		return amiss(Unfit, fmt.Sprintf("it is set up for clients with %s, and this one has %d", brief.Count(m.Nodes, "node"), s.Nodes),
			"Give all clients the same nodes; to change them, see docs/operations.md")
	case m.Run != f.info["run_id"]:
		return amiss(Warning, fmt.Sprintf("it has restarted, and its next lock begins a quarantine of %v", lasts), advice)
	case !votes && f.timeErr != nil:
		return amiss(Warning, "it is in quarantine, and its clock cannot be read to say for how long", advice)
	case !votes:
		return amiss(Warning, "it is in quarantine for another "+brief.Duration(min(left, lasts)), advice)
	case m.MaxTTL > s.Quarantine.MaxTTL:
		return amiss(Warning, fmt.Sprintf("it votes, and abstains for %v after a restart, as it was asked by a client with that maxTTL; this one's is %v",
			m.MaxTTL, s.Quarantine.MaxTTL), "Give all clients the same quarantine (WithQuarantine, --quarantine); to make it smaller, see docs/operations.md")
	default:
		return fine("it votes, for clients with %s and a maxTTL of up to %v", brief.Count(m.Nodes, "node"), s.Quarantine.MaxTTL)
	}
}
