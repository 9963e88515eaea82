package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// From facts to findings. Nothing here does any I/O.

const (
	// youngNode is the uptime below which locks that a restart has lost may well be
	// held yet: longer than most ttls.
	youngNode = 10 * time.Minute

	// fullMemory is the share of maxmemory from which on there is little room left.
	fullMemory = 0.8

	// slowShare is the share of the node timeout that a round trip may take: that
	// leaves room for a connection to be made, and for what is slower than the best.
	slowShare = 4

	// firstFit is the major version of Redis from which on all scripts work:
	// it has ZPOPMIN, and lets scripts write after TIME.
	firstFit = 5
)

// A fitness is what findings depend on besides the nodes.
type fitness struct {
	nodeTimeout time.Duration
	prefix      string
	fencing     bool
	polling     bool
	quarantine  time.Duration // its maxTTL; 0: none
	nodes       int           // how many New was given
}

// nodeChecks are the checks of one node, in the order of the report.
var nodeChecks = []struct {
	name string
	find func(*fitness, *facts) Finding
}{
	{"version", (*fitness).version},
	{"role", (*fitness).role},
	{"cluster", (*fitness).cluster},
	{"eviction", (*fitness).eviction},
	{"memory", (*fitness).memory},
	{"persistence", (*fitness).persistence},
	{"uptime", (*fitness).uptime},
	{"round-trip", (*fitness).roundTrip},
	{"acl", (*fitness).acl},
	{"writes", (*fitness).writes},
}

// newReport evaluates what was read of the nodes.
func newReport(fit *fitness, nodes []facts) Report {
	clocks, clientClock := clockFindings(nodes)
	var r Report
	for i := range nodes {
		f := &nodes[i]
		n := NodeReport{Node: f.node}
		reachable := fit.reachable(f)
		reachable.Node, reachable.Check = f.node, "reachable"
		r.Findings = append(r.Findings, reachable)
		if f.down == nil {
			n = f.report()
			for _, c := range nodeChecks {
				found := c.find(fit, f)
				found.Node, found.Check = f.node, c.name
				r.Findings = append(r.Findings, found)
			}
			r.Findings = append(r.Findings, clocks[i], sameServer(nodes, i))
			if fit.quarantine > 0 {
				found := fit.quarantined(f)
				found.Node, found.Check = f.node, "quarantine"
				r.Findings = append(r.Findings, found)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.Findings = append(r.Findings, nodeCount(len(nodes)), sameVersions(nodes))
	if clientClock != nil {
		r.Findings = append(r.Findings, *clientClock)
	}
	return r
}

func (f *facts) report() NodeReport {
	n := NodeReport{Node: f.node, RTT: f.rtt}
	n.Product, n.Version = f.product()
	if s, ok := f.number("uptime_in_seconds"); ok {
		n.Uptime = time.Duration(min(max(s, 0), int64(maxDuration/time.Second))) * time.Second
	}
	if f.timeErr == nil && f.rtt > 0 {
		n.ClockOffset, n.ClockBound = f.offset, max(f.rtt/2, 1)
	}
	return n
}

// Three ways to say what was found.

func fine(format string, args ...any) Finding {
	return Finding{Verdict: VerdictOK, Text: fmt.Sprintf(format, args...)}
}

func amiss(v Verdict, text, advice string) Finding {
	return Finding{Verdict: v, Text: text, Advice: advice}
}

func unknown(why error, advice string) Finding {
	return Finding{Verdict: VerdictUnknown, Text: words(why.Error()), Advice: advice}
}

// unread is the finding of a check that needs a field of INFO which is missing.
func (f *facts) unread(field string) Finding {
	if f.infoErr != nil {
		return unknown(f.infoErr, "Grant the right +info, or look at the server's settings by other means")
	}
	return unknown(errors.New("INFO does not tell "+field), "Look at the server's settings by other means")
}

// words is a text of the server's, or an error with one, as it may be shown.
func words(s string) string {
	const most = 200
	s = strings.TrimPrefix(s, "redlock: ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	if !isPrintable(s) {
		s = strconv.Quote(s)
	}
	return strings.TrimRight(s, ".")
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

func (fit *fitness) reachable(f *facts) Finding {
	switch {
	case f.down == nil:
		return fine("it answers")
	case f.alive:
		return amiss(VerdictUnknown, "it answers on the connection that locks use, but there is no other to ask it on: "+words(f.down.Error()),
			"Let the pool have another connection")
	default:
		return amiss(VerdictUnfit, "it does not answer: "+words(f.down.Error()),
			"Look whether it runs, and whether address, network, password and TLS are right")
	}
}

// product is who made the server, and its version there.
func (f *facts) product() (name, version string) {
	for _, p := range []struct{ field, name string }{
		{"valkey_version", "Valkey"}, {"dragonfly_version", "Dragonfly"}, {"redis_version", "Redis"},
	} {
		if v := f.info[p.field]; v != "" {
			return p.name, words(v)
		}
	}
	return "", ""
}

// major is the first number of a version, of which a v may stand before it.
func major(version string) (int, bool) {
	digits, _, _ := strings.Cut(strings.TrimLeft(version, "v"), ".")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func (fit *fitness) version(f *facts) Finding {
	name, version := f.product()
	if version == "" {
		return f.unread("redis_version")
	}
	if n, ok := major(version); ok && name == "Redis" && n < firstFit {
		return amiss(VerdictWarning, "it is Redis "+version+", on which waiting and fencing do not work",
			"Use Redis 5 or later, or Valkey")
	}
	return fine("it is %s %s", name, version)
}

func (fit *fitness) role(f *facts) Finding {
	role := f.info["role"]
	if role == "" {
		role = f.role
	}
	switch replicas, _ := f.number("connected_slaves"); {
	case role == "":
		return f.unread("role")
	case role != "master":
		return amiss(VerdictUnfit, "it is a "+replicaNames(role)+", not a master",
			"Give the address of a master that is independent of the other nodes")
	case replicas > 0 && fit.quarantine == 0:
		return amiss(VerdictWarning, fmt.Sprintf("it is a master with replicas (%d), of which one that is promoted behind its address lacks the latest locks", replicas),
			"Make sure that nothing promotes one behind this address, or use quarantine")
	default:
		return fine("it is a master")
	}
}

func replicaNames(role string) string {
	if role == "slave" {
		return "replica"
	}
	return words(role)
}

func (fit *fitness) cluster(f *facts) Finding {
	mode := f.info["redis_mode"]
	if mode == "" {
		mode = f.info["server_mode"] // Valkey's.
	}
	enabled := f.info["cluster_enabled"]
	const advice = "Use masters of their own, outside of Redis Cluster and Sentinel"
	switch {
	case mode == "sentinel":
		return amiss(VerdictUnfit, "it is a Sentinel, which stores no locks", advice)
	case mode == "cluster" || enabled == "1":
		return amiss(VerdictUnfit, "it is a node of a Redis Cluster, which moves keys and fails over", advice)
	case mode == "" && enabled == "":
		return f.unread("cluster_enabled")
	default:
		return fine("it is neither in cluster mode nor a Sentinel")
	}
}

func (fit *fitness) eviction(f *facts) Finding {
	policy := f.info["maxmemory_policy"]
	limit, _ := f.number("maxmemory")
	const advice = "Set maxmemory-policy noeviction"
	switch {
	case policy == "":
		return f.unread("maxmemory_policy")
	case policy == "noeviction":
		return fine("maxmemory-policy is noeviction")
	case limit == 0: // Or INFO does not tell.
		return amiss(VerdictWarning, "maxmemory-policy is "+words(policy)+", which evicts locks as soon as there is a maxmemory", advice)
	default:
		return amiss(VerdictUnfit, "maxmemory-policy is "+words(policy)+", which evicts locks when memory is short", advice)
	}
}

func (fit *fitness) memory(f *facts) Finding {
	limit, ok1 := f.number("maxmemory")
	used, ok2 := f.number("used_memory")
	const advice = "Raise maxmemory, or move what else is stored there"
	switch share := float64(used) / float64(limit); {
	case !ok1:
		return f.unread("maxmemory")
	case limit <= 0:
		return fine("there is no maxmemory")
	case !ok2:
		return f.unread("used_memory")
	case share >= 1:
		return amiss(VerdictUnfit, "all of its maxmemory is in use", advice)
	case share > fullMemory:
		return amiss(VerdictWarning, fmt.Sprintf("%.0f %% of its maxmemory are in use", 100*share), advice)
	default:
		return fine("%.0f %% of its maxmemory are in use", 100*share)
	}
}

// keeps reports whether a restart loses no lock, and if it may, how.
func (f *facts) keeps() (safe, known bool, how string) {
	switch {
	case f.info["aof_enabled"] == "":
		return false, false, ""
	case f.info["aof_enabled"] != "1":
		return false, true, "it has no append-only file: a restart loses locks"
	case f.info["aof_last_write_status"] == "err":
		return false, true, "its last write to the append-only file has failed"
	case f.fsyncErr != nil:
		return false, false, ""
	case f.fsync != "always":
		return false, true, "appendfsync is " + words(f.fsync) + ": a power failure may lose the latest locks"
	case f.lenient == "yes":
		return false, true, "no-appendfsync-on-rewrite is yes: a power failure during a rewrite may lose the latest locks"
	default:
		return true, true, "the append-only file is written with every command"
	}
}

func (fit *fitness) persistence(f *facts) Finding {
	safe, known, how := f.keeps()
	switch {
	case known && safe:
		return fine("%s", how)
	case fit.quarantine > 0:
		return fine("a restart may lose locks, and quarantine keeps the node out until they are over")
	case known:
		return amiss(VerdictWarning, how+", and a second holder gets in",
			"Set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, or use quarantine")
	case f.info["aof_enabled"] == "":
		return f.unread("aof_enabled")
	default:
		return unknown(f.fsyncErr, "Make sure that appendfsync is always, or use quarantine")
	}
}

// quarantined says whether the node may vote, by its marker.
func (fit *fitness) quarantined(f *facts) Finding {
	const advice = "Wait until it is over, or call Admit if no lock can be held that the node does not have"
	m := parseMarker(f.marker)
	over := m.since.Add(max(m.maxTTL, fit.quarantine) + quarantineMargin)
	votes := m.votes && m.maxTTL >= fit.quarantine || f.timeErr == nil && !time.Now().Add(f.offset).Before(over)
	switch {
	case !isRun(f.info["run_id"]):
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

// uptime is of interest where a restart loses locks.
func (fit *fitness) uptime(f *facts) Finding {
	s, ok := f.number("uptime_in_seconds")
	if !ok {
		return f.unread("uptime_in_seconds")
	}
	safe, known, _ := f.keeps()
	if young := s < int64(youngNode/time.Second); young && known && !safe && fit.quarantine == 0 {
		return amiss(VerdictWarning, fmt.Sprintf("it was started %d s ago, and may have lost locks that are still held", s),
			"After a restart, keep a node out for the longest ttl, or use quarantine")
	}
	return fine("it was started %d s ago", s)
}

func (fit *fitness) roundTrip(f *facts) Finding {
	rtt, timeout := brief(f.rtt), brief(fit.nodeTimeout)
	const advice = "Raise the node timeout to at least four round trips (WithNodeTimeout), or use a node that is nearer"
	switch {
	case f.rtt > fit.nodeTimeout:
		return amiss(VerdictUnfit, fmt.Sprintf("a round trip takes %s, and its votes come after the node timeout of %s", rtt, timeout), advice)
	case f.rtt > fit.nodeTimeout/slowShare:
		return amiss(VerdictWarning, fmt.Sprintf("a round trip takes %s, which is much of the node timeout of %s", rtt, timeout), advice)
	default:
		return fine("a round trip takes %s", rtt)
	}
}

// acl finds what the connection's user may not do.
func (fit *fitness) acl(f *facts) Finding {
	var missing, says []string
	verdict := VerdictWarning
	for _, d := range f.denials {
		if d.isPassing() || slices.Contains(missing, d.right) {
			continue
		}
		if !slices.Contains(waitRights, d.right) || d.right == "time" && (fit.fencing || fit.quarantine > 0) {
			verdict = VerdictUnfit
		} else if fit.polling {
			continue
		}
		missing = append(missing, d.right)
		if !slices.Contains(says, d.says) {
			says = append(says, d.says)
		}
	}
	switch {
	case len(missing) > 0:
		return fit.lacking(verdict, missing, says[0])
	case fit.quarantine > 0 && f.info["run_id"] == "" && f.infoErr != nil:
		return amiss(VerdictUnfit, "quarantine needs INFO: "+words(f.infoErr.Error()), "Grant the right +info")
	case !f.probed && len(f.denials) > 0: // For what state the server is in.
		return unknown(errors.New(f.denials[0].says), "Check again when the server accepts commands")
	case !f.probed:
		return unknown(errors.New("the probe's answer is not understood"), "Compare the rights with those in docs/operations.md")
	default:
		return fine("the connection's user may do what the library needs")
	}
}

// lacking says what is refused, and what for: locks, or only waiting.
func (fit *fitness) lacking(v Verdict, missing []string, says string) Finding {
	text := "locks do not work: "
	if v == VerdictWarning {
		text = "who waits for a lock has to poll, and fencing may not work: "
	}
	text += "the server refuses " + strings.ToUpper(strings.ReplaceAll(strings.Join(missing, ", "), "|", " "))
	return amiss(v, text+" ("+words(says)+")", fmt.Sprintf("Grant +%s on the keys %s and the channels %s",
		strings.Join(missing, " +"), "~"+fit.prefix+"*", "&"+fit.prefix+reservedMark+"*"))
}

// writes finds out why a server refuses writes that the user may make.
func (fit *fitness) writes(f *facts) Finding {
	for _, d := range f.denials {
		if d.isPassing() {
			return amiss(VerdictUnfit, "the server refuses "+strings.ToUpper(d.right)+" at present: "+words(d.says),
				"Remove the cause; until then it gives no locks")
		}
	}
	if !f.probed {
		return unknown(errors.New("the probe was not run"), "Grant the rights of docs/operations.md")
	}
	return fine("it accepts writes")
}
