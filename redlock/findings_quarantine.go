package redlock

import (
	"fmt"
	"time"
)

// quarantined says whether the node may vote, by its marker.
func (fit *fitness) quarantined(f *facts) Finding {
	const advice = "Wait until it is over, or call Admit if no lock can be held that the node does not have"
	m := parseMarker(f.marker)
	over := m.since.Add(max(m.maxTTL, fit.quarantine) + quarantineMargin)
	votes := m.votes && m.maxTTL >= fit.quarantine || f.timeErr == nil && !time.Now().Add(f.offset).Before(over)
	switch {
	case f.info.Run() == "":
		return amiss(VerdictUnfit, "it does not tell its run_id, without which it grants no lock to clients with quarantine",
			"Grant the right +info, or use a server that tells it")
	case f.markerErr != nil:
		return unknown(f.markerErr, "Grant the rights of docs/operations.md")
	case m.run == "":
		return amiss(VerdictWarning, "it is new or has lost its data, and its first lock begins a quarantine", advice)
	case m.nodes != fit.nodes:
		return amiss(VerdictUnfit, fmt.Sprintf("it is set up for clients with %d nodes, and this one has %d", m.nodes, fit.nodes),
			"Give all clients the same nodes; to change them, see docs/operations.md")
	case m.run != f.info["run_id"]:
		return amiss(VerdictWarning, "it has restarted, and its next lock begins a quarantine", advice)
	case !votes:
		return amiss(VerdictWarning, "it is in quarantine", advice)
	case m.maxTTL > fit.quarantine:
		return amiss(VerdictWarning, fmt.Sprintf("it votes, and abstains for %v after a restart, as it was asked by a client with that maxTTL; this one's is %v",
			m.maxTTL, fit.quarantine), "Give all clients the same WithQuarantine; to make it smaller, see docs/operations.md")
	default:
		return fine("it votes, for clients with %d nodes and a maxTTL of up to %v", m.nodes, fit.quarantine)
	}
}
