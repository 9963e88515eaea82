package fitness

import "strings"

// Whether a server is a part of something that moves keys, or of one that has none.

func (s *Setup) cluster(f *facts) Finding {
	mode := f.info["redis_mode"]
	if mode == "" {
		mode = f.info["server_mode"] // Valkey's.
	}
	enabled := f.info["cluster_enabled"]
	const advice = "Use masters of their own, outside of Redis Cluster and Sentinel"
	switch {
	case mode == "sentinel":
		return amiss(Unfit, "it is a Sentinel, which stores no locks", advice)
	case mode == "cluster" || enabled == "1":
		return s.inCluster(advice)
	case mode == "" && enabled == "":
		return f.unread("cluster_enabled")
	default:
		return fine("it is neither in cluster mode nor a Sentinel")
	}
}

// inCluster is about a node of a Redis Cluster. As one of several it would vote twice after a
// failover. As the only one it may do, if all keys of a script are in one slot.
func (s *Setup) inCluster(advice string) Finding {
	switch {
	case s.Nodes > 1:
		return amiss(Unfit, "it is a node of a Redis Cluster, which moves keys and fails over", advice)
	case !hasHashTag(s.Prefix):
		return amiss(Unfit, "it is a node of a Redis Cluster, which refuses locks whose keys are in several slots",
			`Put all keys into one slot with a hash tag, such as WithPrefix("{locks}:"); or use a master outside of Redis Cluster`)
	case s.Quarantine == nil:
		return amiss(Warning, "it is a node of a Redis Cluster, of which a failover loses the latest locks, and a second holder gets in",
			"Use quarantine, or a master outside of Redis Cluster")
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
