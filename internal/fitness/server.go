package fitness

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// What a server says of itself: what it is, and how it is set up.

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

// firstFit is the major version of Redis from which on all scripts work:
// it has ZPOPMIN, and lets scripts write after TIME.
const firstFit = 5

func (s *Setup) version(f *facts) Finding {
	name, version := f.product()
	if version == "" {
		return f.unread("redis_version")
	}
	if n, ok := conn.Major(version); ok && name == "Redis" && n < firstFit {
		return amiss(Warning, "it is Redis "+version+", on which waiting and fencing do not work",
			"Use Redis 5 or later, or Valkey")
	}
	return fine("it is %s %s", name, version)
}

func (s *Setup) role(f *facts) Finding {
	role := f.info["role"]
	switch replicas, _ := f.info.Number("connected_slaves"); {
	case role == "":
		return f.unread("role")
	case role != "master":
		return amiss(Unfit, "it is a "+replicaNames(role)+", not a master",
			"Give the address of a master that is independent of the other nodes")
	case replicas > 0 && s.Quarantine == nil:
		return amiss(Warning, fmt.Sprintf("it is a master with replicas (%d), of which one that is promoted behind its address lacks the latest locks", replicas),
			"Make sure that nothing promotes one behind this address, or "+useQuarantine)
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

func (s *Setup) eviction(f *facts) Finding {
	policy := f.info["maxmemory_policy"]
	limit, _ := f.info.Number("maxmemory")
	const advice = "Set maxmemory-policy noeviction"
	switch {
	case policy == "":
		return f.unread("maxmemory_policy")
	case policy == "noeviction":
		return fine("maxmemory-policy is noeviction")
	case limit == 0: // Or INFO does not tell.
		return amiss(Warning, "maxmemory-policy is "+words(policy)+", which evicts locks as soon as there is a maxmemory", advice)
	default:
		return amiss(Unfit, "maxmemory-policy is "+words(policy)+", which evicts locks when memory is short", advice)
	}
}

func (s *Setup) memory(f *facts) Finding {
	limit, ok1 := f.info.Number("maxmemory")
	used, ok2 := f.info.Number("used_memory")
	const advice = "Raise maxmemory, or move what else is stored there"
	switch share := float64(used) / float64(limit); {
	case !ok1:
		return f.unread("maxmemory")
	case limit <= 0:
		return fine("there is no maxmemory")
	case !ok2:
		return f.unread("used_memory")
	case share >= 1:
		return amiss(Unfit, "all of its maxmemory is in use", advice)
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

func (s *Setup) persistence(f *facts) Finding {
	safe, known, how := f.keeps()
	switch {
	case known && safe:
		return fine("%s", how)
	case s.Quarantine != nil:
		return fine("a restart may lose locks, and quarantine keeps the node out until they are over")
	case known:
		return amiss(Warning, how+", and a second holder gets in",
			"Set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, or "+useQuarantine)
	case f.info["aof_enabled"] == "":
		return f.unread("aof_enabled")
	case isRight(f.fsyncErr):
		return amiss(Warning, "its append-only file is in use, but this user may not see whether appendfsync is always: if it is not, a power failure loses the latest locks",
			"Make sure that it is, with a user who may, or "+useQuarantine)
	default:
		return unknown(f.fsyncErr, "Make sure that appendfsync is always, or "+useQuarantine)
	}
}

// leastTimeout is the least `timeout` of a server that does not close connections which
// are fine: a PING is sent when one has been idle for conn.IdlePing, and may be late by as much.
const leastTimeout = 2 * conn.IdlePing

// timeout looks at the setting of that name: idle for so long, a connection is closed.
func (s *Setup) timeout(f *facts) Finding {
	const advice = "Set timeout 0, or 30 and more"
	seconds, err := strconv.ParseInt(f.timeoutSetting, 10, 64)
	switch {
	case isRight(f.timeoutErr): // No locks are lost by it.
		return fine("this user may not see its timeout; a connection that it closes is made again")
	case f.timeoutErr != nil:
		return unknown(f.timeoutErr, "Make sure that the server's timeout is 0, or 30 and more")
	case err != nil || seconds < 0:
		return unknown(errors.New("its timeout is "+words(f.timeoutSetting)), advice)
	case seconds == 0:
		return fine("it does not close idle connections")
	case seconds < int64(leastTimeout/time.Second):
		return amiss(Warning, fmt.Sprintf("it closes connections that were idle for %d s, which breaks those of locks over and over", seconds), advice)
	default:
		return fine("it closes connections that were idle for %d s", seconds)
	}
}
