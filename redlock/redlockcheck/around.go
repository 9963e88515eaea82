package redlockcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
)

// What is set up around locks: the user that nobody logs in as, snapshots, the certificate.

// user reads the answer to ACL GETUSER: names and values, some of which are lists.
func user(a conn.Answer) (map[string]string, error) {
	list, ok := a.Reply.([]any)
	if !ok && a.Err == nil {
		a.Err = errors.New("ACL GETUSER is not understood")
	}
	fields := make(map[string]string)
	for pair := range slices.Chunk(list, 2) {
		fields[fmt.Sprintf("%s", pair[0])] = fmt.Sprintf("%s", pair[len(pair)-1])
	}
	return fields, a.Err
}

// defaultUser looks at the user as which a server loads its append-only file, also if nobody may log in as it. What
// it may not do is discarded then, if a script has written it in more than one command.
func (s *survey) defaultUser(f *facts) Finding {
	u := f.defaults
	all := strings.HasPrefix(u["commands"], "+@all") && (strings.Contains(u["keys"], "~*") || u["keys"] == "[*]") // 6 has a list.
	open := strings.Contains(u["flags"], "nopass") && !strings.Contains(u["flags"], "off")
	loads := f.info["aof_enabled"] == "1" && s.Quarantine == 0
	const advice = "Give it all rights, also if it is off: user default off ~* &* +@all"
	switch {
	case f.defaultsErr != nil && isUnknown(f.defaultsErr.Error()): // It has no users.
		return Finding{}
	case isRight(f.defaultsErr) && !loads:
		return fine("this user may not see the rights of the default user")
	case f.defaultsErr != nil:
		return unknown(f.defaultsErr, "Make sure, with a user who may +acl|getuser, that the default user has all rights, also if it is off")
	case !all && loads:
		return amiss(Warning, advice, "the default user lacks rights: unless the server is newer than the fix of that, it discards at a restart "+
			"the locks with fences, on several resources or after a wait that are in its append-only file, and a second holder gets in")
	case all && open && f.protected != "yes":
		return amiss(Warning, "Give it a password, or turn it off: user default off ~* &* +@all", "who reaches it may do everything without a password")
	default:
		return fine("nothing is amiss with the default user")
	}
}

// snapshots are of no use beside an append-only file. Where they are all that is kept, check persistence is about them.
func (s *survey) snapshots(f *facts) Finding {
	if f.info["aof_enabled"] != "1" || f.saveErr != nil {
		return Finding{}
	}
	if f.save != "" {
		return amiss(Warning, `Set save ""`, "it writes snapshots beside its append-only file (save %s), and refuses all writes when one fails", words(f.save))
	}
	return fine("it writes no snapshots beside its append-only file")
}

// certificate finds one that nobody has renewed. Who renews by a machine does so when a third is left.
func (s *survey) certificate(f *facts) Finding {
	if f.issued == nil {
		return Finding{}
	}
	left, life := time.Until(f.issued.NotAfter), f.issued.NotAfter.Sub(f.issued.NotBefore)
	if left > min(14*24*time.Hour, life/4) {
		return fine("its certificate ends in %s", brief.Duration(left))
	}
	return amiss(Warning, "Renew it, and have the server read it (CONFIG SET tls-cert-file FILE tls-key-file FILE)",
		"its certificate ends in %s, and from then on no client connects that checks it", brief.Duration(max(left, 0)))
}
