package fitness

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
)

// quarantined says whether the node may vote, by its marker.
func (s *Setup) quarantined(f *facts) Finding {
	const advice = "Wait until it is over, or call Admit if no lock can be held that the node does not have"
	m := s.Quarantine.Parse(f.marker)
	over := m.Since.Add(max(m.MaxTTL, s.Quarantine.MaxTTL) + s.Quarantine.Margin)
	votes := m.Votes && m.MaxTTL >= s.Quarantine.MaxTTL || f.timeErr == nil && !time.Now().Add(f.offset).Before(over)
	switch {
	case f.info.Run() == "":
		return amiss(Unfit, "it does not tell its run_id, without which it grants no lock to clients with quarantine",
			"Grant the right +info, or use a server that tells it")
	case f.markerErr != nil:
		return unknown(f.markerErr, "Grant the rights of docs/operations.md")
	case m.Run == "":
		return amiss(Warning, "it is new or has lost its data, and its first lock begins a quarantine", advice)
	case m.Nodes != s.Nodes:
		return amiss(Unfit, fmt.Sprintf("it is set up for clients with %s, and this one has %d", brief.Count(m.Nodes, "node"), s.Nodes),
			"Give all clients the same nodes; to change them, see docs/operations.md")
	case m.Run != f.info["run_id"]:
		return amiss(Warning, "it has restarted, and its next lock begins a quarantine", advice)
	case !votes:
		return amiss(Warning, "it is in quarantine", advice)
	case m.MaxTTL > s.Quarantine.MaxTTL:
		return amiss(Warning, fmt.Sprintf("it votes, and abstains for %v after a restart, as it was asked by a client with that maxTTL; this one's is %v",
			m.MaxTTL, s.Quarantine.MaxTTL), "Give all clients the same WithQuarantine; to make it smaller, see docs/operations.md")
	default:
		return fine("it votes, for clients with %s and a maxTTL of up to %v", brief.Count(m.Nodes, "node"), s.Quarantine.MaxTTL)
	}
}
