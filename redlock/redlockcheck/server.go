package redlockcheck

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// What a server says about itself: its product, and its settings.

// product returns who made the server, and its version.
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

// firstFit is the major version of Redis from which on all scripts work:
// it has ZPOPMIN, and lets scripts write after TIME.
const firstFit = 5

func (s *survey) version(f *facts) Finding {
	name, version := f.product()
	if version == "" {
		return f.unread("redis_version")
	}
	if n, ok := conn.Major(version); ok && name == "Redis" && n < firstFit {
		return amiss(Warning, "Use Redis 5 or later, or Valkey",
			"it is Redis %s, on which waiting and fencing do not work", version)
	}
	return fine("it is %s %s", name, version)
}

func (s *survey) role(f *facts) Finding {
	role := f.info["role"]
	switch replicas, _ := f.info.Number("connected_slaves"); {
	case role == "":
		return f.unread("role")
	case role != "master":
		return amiss(Unfit, "Give the address of a master that is independent of the other nodes",
			"it is a %s, not a master", words(strings.Replace(role, "slave", "replica", 1)))
	case replicas > 0 && s.Quarantine == 0:
		return amiss(Warning, "Make sure that nothing promotes one behind this address, or "+useQuarantine,
			"it is a master with replicas (%d), of which one that is promoted behind its address lacks the latest locks", replicas)
	default:
		return fine("it is a master")
	}
}

// cluster is about servers that move keys, or have none. A node of a Redis Cluster that is one of several nodes would
// vote twice after a failover. As the only node it is usable if all keys of a script are in one slot.
func (s *survey) cluster(f *facts) Finding {
	mode := cmp.Or(f.info["redis_mode"], f.info["server_mode"]) // The second field is Valkey's.
	enabled := f.info["cluster_enabled"]
	const advice = "Use masters of their own, outside of Redis Cluster and Sentinel"
	switch {
	case mode == "sentinel":
		return amiss(Unfit, advice, "it is a Sentinel, which stores no locks")
	case mode == "" && enabled == "":
		return f.unread("cluster_enabled")
	case mode != "cluster" && enabled != "1":
		return fine("it is neither in cluster mode nor a Sentinel")
	case len(s.nodes) > 1:
		return amiss(Unfit, advice, "it is a node of a Redis Cluster, which moves keys and fails over")
	case !hasHashTag(s.Prefix):
		return amiss(Unfit, `Put all keys into one slot with a hash tag, such as WithPrefix("{locks}:"); or use a master outside of Redis Cluster`,
			"it is a node of a Redis Cluster, which refuses locks whose keys are in several slots")
	case s.Quarantine == 0:
		return amiss(Warning, "Use quarantine, or a master outside of Redis Cluster",
			"it is a node of a Redis Cluster, of which a failover loses the latest locks, and a second holder gets in")
	default:
		return fine("it is a node of a Redis Cluster, and the only one; all keys are in one slot")
	}
}

// hasHashTag reports whether Redis Cluster keeps all keys that begin with prefix in one slot.
func hasHashTag(prefix string) bool {
	_, rest, _ := strings.Cut(prefix, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return closed && tag != ""
}

func (s *survey) eviction(f *facts) Finding {
	policy := f.info["maxmemory_policy"]
	limit, _ := f.info.Number("maxmemory")
	const advice = "Set maxmemory-policy noeviction"
	switch {
	case policy == "":
		return f.unread("maxmemory_policy")
	case policy == "noeviction":
		return fine("maxmemory-policy is noeviction")
	case limit == 0: // Or INFO does not say.
		return amiss(Warning, advice, "maxmemory-policy is %s, which evicts locks as soon as there is a maxmemory", words(policy))
	default:
		return amiss(Unfit, advice, "maxmemory-policy is %s, which evicts locks when memory is short", words(policy))
	}
}

func (s *survey) memory(f *facts) Finding {
	limit, ok1 := f.info.Number("maxmemory")
	used, ok2 := f.info.Number("used_memory")
	switch {
	case !ok1:
		return f.unread("maxmemory")
	case limit <= 0:
		return fine("there is no maxmemory")
	case !ok2:
		return f.unread("used_memory")
	case used >= limit:
		return amiss(Unfit, "Raise maxmemory, or move what else is stored there", "all of its maxmemory is in use")
	default:
		return fine("%.0f %% of its maxmemory are in use", 100*float64(used)/float64(limit))
	}
}

func (s *survey) persistence(f *facts) Finding {
	loses := func(how string) Finding {
		return amiss(Warning, "Set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, or "+useQuarantine,
			"%s, and a second holder gets in", how)
	}
	found := fine("the append-only file is written with every command")
	switch {
	case f.info["aof_enabled"] == "":
		found = f.unread("aof_enabled")
	case f.info["aof_enabled"] != "1":
		found = loses("it has no append-only file: a restart loses locks")
	case f.info["aof_last_write_status"] == "err":
		found = loses("its last write to the append-only file has failed")
	case isRight(f.fsyncErr):
		found = amiss(Warning, "Make sure that it is, with a user who may, or "+useQuarantine,
			"its append-only file is in use, but this user may not see whether appendfsync is always: if it is not, a power failure loses the latest locks")
	case f.fsyncErr != nil:
		found = unknown(f.fsyncErr, "Make sure that appendfsync is always, or "+useQuarantine)
	case f.fsync != "always":
		found = loses("appendfsync is " + words(f.fsync) + ": a power failure may lose the latest locks")
	case f.lenient == "yes":
		found = loses("no-appendfsync-on-rewrite is yes: a power failure during a rewrite may lose the latest locks")
	}
	if found.Verdict != OK && s.Quarantine > 0 {
		return fine("a restart may lose locks, and quarantine keeps the node out until they are over")
	}
	return found
}

// leastTimeout is the least `timeout` with which a server does not close healthy connections: a PING is sent when one
// has been idle for node.IdlePing, and may be late by as much.
const leastTimeout = 2 * node.IdlePing

// timeout looks at the setting of that name, after which a server closes an idle connection.
func (s *survey) timeout(f *facts) Finding {
	const advice = "Set timeout 0, or 30 and more"
	seconds, err := strconv.ParseInt(f.timeoutSetting, 10, 64)
	switch {
	case isRight(f.timeoutErr): // That loses no locks.
		return fine("this user may not see its timeout; a connection that it closes is made again")
	case f.timeoutErr != nil:
		return unknown(f.timeoutErr, "Make sure that the server's timeout is 0, or 30 and more")
	case err != nil || seconds < 0:
		return unknown(errors.New("its timeout is "+words(f.timeoutSetting)), advice)
	case seconds == 0:
		return fine("it does not close idle connections")
	case seconds < int64(leastTimeout/time.Second):
		return amiss(Warning, advice, "it closes connections that were idle for %d s, which breaks those of locks over and over", seconds)
	default:
		return fine("it closes connections that were idle for %d s", seconds)
	}
}

// defaultUser looks at the user as which a server loads its append-only file, even if nobody may log in as that user. A
// script's writes that this user may not make are then discarded, if the script made more than one.
func (s *survey) defaultUser(f *facts) Finding {
	u := f.defaults
	all := strings.HasPrefix(u["commands"], "+@all") && (strings.Contains(u["keys"], "~*") || u["keys"] == "[*]") // 6 has a list.
	open := strings.Contains(u["flags"], "nopass") && !strings.Contains(u["flags"], "off")
	loads := f.info["aof_enabled"] == "1" && s.Quarantine == 0
	switch {
	case f.defaultsErr != nil && (isUnknown(f.defaultsErr.Error()) || !loads): // It has no users, or they lose nothing.
		return Finding{}
	case f.defaultsErr != nil:
		return unknown(f.defaultsErr, "Make sure, with a user who may +acl|getuser, that the default user has all rights, also if it is off")
	case !all && loads:
		return amiss(Warning, "Give it all rights, also if it is off: user default off ~* &* +@all",
			"the default user lacks rights: unless the server is newer than the fix of that, it discards at a restart the locks "+
				"with fences, on several resources or after a wait that are in its append-only file, and a second holder gets in")
	case all && open && f.protected != "yes":
		return amiss(Warning, "Give it a password, or turn it off: user default off ~* &* +@all", "who reaches it may do everything without a password")
	default:
		return fine("nothing is amiss with the default user")
	}
}

// snapshots finds snapshots beside an append-only file, where they are of no use. If only snapshots are kept, check
// persistence is about them.
func (s *survey) snapshots(f *facts) Finding {
	switch {
	case f.info["aof_enabled"] != "1" || f.fsyncErr != nil:
		return Finding{}
	case f.save != "":
		return amiss(Warning, `Set save ""`, "it writes snapshots beside its append-only file (save %s), and refuses all writes when one fails", words(f.save))
	default:
		return fine("it writes no snapshots beside its append-only file")
	}
}

// certificate finds a certificate that nobody has renewed. Automatic renewal comes when a third of its life is left.
func (s *survey) certificate(f *facts) Finding {
	if f.issued == nil {
		return Finding{}
	}
	end, life := f.issued.NotAfter, f.issued.NotAfter.Sub(f.issued.NotBefore)
	ends := "its certificate ends at " + end.UTC().Format("2006-01-02 15:04 UTC")
	if time.Until(end) > min(14*24*time.Hour, life/4) {
		return fine("%s", ends)
	}
	return amiss(Warning, "Renew it, and have the server read it (CONFIG SET tls-cert-file FILE tls-key-file FILE)",
		"%s, and from then on no client connects that checks it", ends)
}
