package redlockcheck

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/settings"
)

// goodFacts are those of a node with which nothing is amiss.
func goodFacts(i int) facts {
	return facts{
		node: fmt.Sprint("n", i),
		info: map[string]string{
			"redis_version": "7.4.1", "redis_mode": "standalone", "run_id": strings.Repeat(fmt.Sprint("a", i), 20),
			"uptime_in_seconds": "86400", "role": "master", "connected_slaves": "0", "cluster_enabled": "0",
			"maxmemory": "1000", "used_memory": "100", "maxmemory_policy": "noeviction",
			"aof_enabled": "1", "aof_last_write_status": "ok",
		},
		database: "0", fsync: "always", lenient: "no",
		timeoutSetting: "0",
		defaults:       map[string]string{"flags": "[off]", "commands": "+@all", "keys": "~*"},
		rtt:            time.Millisecond, probed: true,
	}
}

// with returns facts with fields of INFO changed: name, value, …; "" removes one.
func (f facts) with(fields ...string) facts {
	f.info = maps.Clone(f.info)
	for i := 0; i < len(fields); i += 2 {
		f.info[fields[i]] = fields[i+1]
		if fields[i+1] == "" {
			delete(f.info, fields[i])
		}
	}
	return f
}

// goodSurvey has settings with which nothing is amiss either.
func goodSurvey(nodes ...facts) *survey {
	return &survey{Settings: settings.Settings{NodeTimeout: 100 * time.Millisecond, Prefix: "p:", Space: "p:own:"}, nodes: nodes}
}

// texts are those of a report's findings.
func texts(r Report) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Text)
	}
	return strings.Join(all, "\n")
}

// worseThanOK returns the checks of a report that are not ok, each with node and verdict.
func worseThanOK(t *testing.T, r Report) map[string]Verdict {
	t.Helper()
	bad := make(map[string]Verdict)
	for _, f := range r.Findings {
		assert.NotEmpty(t, f.Check)
		assert.NotEmpty(t, f.Text, "%+v", f)
		assert.False(t, strings.HasSuffix(f.Text, ".") || strings.HasSuffix(f.Advice, "."), "%+v", f)
		assert.Equal(t, f.Verdict == OK, f.Advice == "", "%+v", f)
		if f.Verdict != OK {
			bad[f.Node+" "+f.Check] = f.Verdict
		}
	}
	return bad
}

// requireOnly checks that what is amiss are these checks of the node, with their verdicts, and nothing else anywhere.
func requireOnly(t *testing.T, r Report, node string, checks map[string]Verdict) {
	t.Helper()
	want := map[string]Verdict{}
	for check, v := range checks {
		want[node+" "+check] = v
	}
	require.Equal(t, want, worseThanOK(t, r))
}

func TestFindingsOfOneNode(t *testing.T) {
	good := goodFacts(1)
	but := func(change func(f *facts)) facts {
		f := goodFacts(1)
		change(&f)
		return f
	}
	denied := func(rights ...string) facts {
		return but(func(f *facts) {
			for _, r := range rights {
				f.denials = append(f.denials, denial{r, "NOPERM not you"})
			}
		})
	}
	// marked has a marker of the quarantine, of this run of the server.
	marked := func(format string, args ...any) facts {
		return but(func(f *facts) { f.marker = f.info["run_id"] + fmt.Sprintf(format, args...) })
	}
	no, unknown := errors.New("NOPERM"), errors.New("ERR unknown command")
	noInfo := but(func(f *facts) { f.info, f.infoErr = nil, no })
	noConfig := but(func(f *facts) { f.fsync, f.fsyncErr, f.timeoutErr = "", no, no })
	undeclared := but(func(f *facts) { f.undeclaredKeys = "script tried accessing undeclared key" })
	type set = map[string]Verdict
	unread := set{"version": Unknown, "role": Unknown, "cluster": Unknown, "eviction": Unknown, "memory": Unknown, "same-server": Unknown}
	unreadDurable, unreadQuarantine := maps.Clone(unread), maps.Clone(unread)
	unreadDurable["persistence"] = Unknown
	unreadQuarantine["acl"], unreadQuarantine["quarantine"] = Unfit, Unfit
	quarantined := func(s *survey) { s.Quarantine = 30 * time.Second }
	polls := func(s *survey) { s.Polling = true }
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
	for name, tt := range map[string]struct {
		f    facts
		want set
		fit  func(*survey)
	}{
		"good":                         {f: good},
		"good, Valkey":                 {f: good.with("valkey_version", "8.1.1", "redis_mode", "", "server_mode", "standalone")},
		"old":                          {f: good.with("redis_version", "4.0.9"), want: set{"version": Warning}},
		"no version":                   {f: good.with("redis_version", ""), want: set{"version": Unknown}},
		"replica":                      {f: good.with("role", "slave"), want: set{"role": Unfit}},
		"with replicas":                {f: good.with("connected_slaves", "2"), want: set{"role": Warning}},
		"with replicas, quarantined":   {f: good.with("connected_slaves", "2"), fit: quarantined},
		"cluster, Valkey":              {f: good.with("redis_mode", "", "server_mode", "cluster"), want: set{"cluster": Unfit}},
		"sentinel":                     {f: good.with("redis_mode", "sentinel", "role", "sentinel"), want: set{"cluster": Unfit, "role": Unfit}},
		"no mode":                      {f: good.with("redis_mode", "", "cluster_enabled", ""), want: set{"cluster": Unknown}},
		"evicts":                       {f: good.with("maxmemory_policy", "allkeys-lru"), want: set{"eviction": Unfit}},
		"would evict":                  {f: good.with("maxmemory_policy", "allkeys-lru", "maxmemory", "0"), want: set{"eviction": Warning}},
		"evicts when?":                 {f: good.with("maxmemory_policy", "allkeys-lru", "maxmemory", ""), want: set{"eviction": Warning, "memory": Unknown}},
		"no policy":                    {f: good.with("maxmemory_policy", ""), want: set{"eviction": Unknown}},
		"no limit":                     {f: good.with("maxmemory", "0")},
		"nearly full":                  {f: good.with("used_memory", "999")},
		"full":                         {f: good.with("used_memory", "1000"), want: set{"memory": Unfit}},
		"no used_memory":               {f: good.with("used_memory", ""), want: set{"memory": Unknown}},
		"nonsense":                     {f: good.with("maxmemory", "a lot", "uptime_in_seconds", "x"), want: set{"memory": Unknown}},
		"no AOF":                       {f: good.with("aof_enabled", "0"), want: set{"persistence": Warning}},
		"no AOF, quarantined":          {f: good.with("aof_enabled", "0"), fit: quarantined},
		"AOF fails":                    {f: good.with("aof_last_write_status", "err"), want: set{"persistence": Warning}},
		"everysec":                     {f: but(func(f *facts) { f.fsync = "everysec" }), want: set{"persistence": Warning}},
		"no fsync on rewrite":          {f: but(func(f *facts) { f.lenient = "yes" }), want: set{"persistence": Warning}},
		"CONFIG forbidden":             {f: noConfig, want: set{"persistence": Warning}},
		"CONFIG forbidden, quarantine": {f: noConfig, fit: quarantined},
		"no CONFIG": {
			f:    but(func(f *facts) { f.fsync, f.fsyncErr, f.timeoutErr = "", unknown, unknown }),
			want: set{"persistence": Unknown, "timeout": Unknown},
		},
		"INFO forbidden":             {f: noInfo, want: unreadDurable},
		"INFO forbidden, quarantine": {f: noInfo, want: unreadQuarantine, fit: quarantined},
		"TIME forbidden":             {f: but(func(f *facts) { f.timeErr = no }), want: set{"clock": Unknown}},
		"closes what is idle":        {f: but(func(f *facts) { f.timeoutSetting = "29" }), want: set{"timeout": Warning}},
		"closes it late":             {f: but(func(f *facts) { f.timeoutSetting = "30" })},
		"a strange timeout":          {f: but(func(f *facts) { f.timeoutSetting = "soon" }), want: set{"timeout": Unknown}},
		"no undeclared keys":         {f: undeclared, want: set{"undeclared-keys": Warning}},
		"no undeclared keys, polls":  {f: undeclared, fit: polls},
		"may not use other keys":     {f: but(func(f *facts) { f.outside = "NOPERM no such key" }), want: set{"acl": Unfit}},
		"slow":                       {f: but(func(f *facts) { f.rtt = 30 * time.Millisecond }), want: set{"round-trip": Warning}},
		"too slow":                   {f: but(func(f *facts) { f.rtt = 101 * time.Millisecond }), want: set{"round-trip": Unfit}},
		"may not SET":                {f: denied("set", "publish"), want: set{"acl": Unfit}},
		"may not wait":               {f: denied("publish", "subscribe"), want: set{"acl": Warning}},
		"may not wait, polls":        {f: denied("publish", "time"), fit: polls},
		"may not fence":              {f: denied("time"), want: set{"acl": Unfit}, fit: func(s *survey) { s.Fencing, s.Polling = true, true }},
		"read-only": {
			f:    but(func(f *facts) { f.denials = []denial{{"set", "-READONLY You can't write"}} }),
			want: set{"writes": Unfit},
		},
		"loading": {
			f:    but(func(f *facts) { f.probed, f.denials = false, []denial{{"eval", "LOADING"}} }),
			want: set{"writes": Unfit, "acl": Unknown},
		},
		"a strange answer":        {f: but(func(f *facts) { f.probed = false }), want: set{"writes": Unknown, "acl": Unknown}},
		"down":                    {f: facts{node: "n1", down: no}, want: set{"reachable": Unfit}},
		"no connection to spare":  {f: facts{node: "n1", down: no, spent: true}, want: set{"reachable": Unknown}},
		"admitted":                {f: marked(" votes 3 30000 0"), fit: quarantined},
		"another number of nodes": {f: marked(" votes 5 30000 0"), fit: quarantined, want: set{"quarantine": Unfit}},
		"one node more":           {f: marked(" votes 2 30000 0"), fit: quarantined, want: set{"quarantine": Warning}},
		"two sizes":               {f: marked(" votes 4 30000 0 3"), fit: quarantined, want: set{"quarantine": Warning}},
		"two other sizes":         {f: marked(" votes 4 30000 0 5"), fit: quarantined, want: set{"quarantine": Unfit}},
		"a larger maxTTL":         {f: marked(" votes 3 30001 0"), fit: quarantined, want: set{"quarantine": Warning}},
		"too small a maxTTL":      {f: marked(" votes 3 1 %d", ago(30*time.Second)), fit: quarantined, want: set{"quarantine": Warning}},
		"new":                     {f: but(func(f *facts) { f.marker = " " }), fit: quarantined, want: set{"quarantine": Warning}},
		"restarted":               {f: marked("c votes 3 30000 0"), fit: quarantined, want: set{"quarantine": Warning}},
		"quarantined":             {f: marked(" waits 3 30000 %d", ago(30*time.Second)), fit: quarantined, want: set{"quarantine": Warning}},
		"quarantine over":         {f: marked(" waits 3 30000 %d", ago(32*time.Second)), fit: quarantined},
		"others have quarantine":  {f: marked(" votes 3 30000 0"), want: set{"quarantine": Warning}},
		"a key like a marker":     {f: but(func(f *facts) { f.marker = "x" })},
		"quarantine not told": {
			f: good.with("run_id", ""), fit: quarantined,
			want: set{"quarantine": Unfit, "same-server": Unknown},
		},
		"a run that is hidden": {f: good.with("run_id", strings.Repeat("0", 40)), fit: quarantined, want: set{"quarantine": Unfit}},
	} {
		t.Run(name, func(t *testing.T) {
			s := goodSurvey(goodFacts(0), tt.f, goodFacts(2))
			if tt.fit != nil {
				tt.fit(s)
			}
			for i := range s.nodes {
				if f := &s.nodes[i]; s.Quarantine > 0 && f.marker == "" {
					f.marker = f.info["run_id"] + " votes 3 30000 0"
				}
			}
			requireOnly(t, s.report(), "n1", tt.want)
		})
	}
	s, f := goodSurvey(make([]facts, 3)...), marked(" waits 3 30000 %d", ago(-time.Hour))
	quarantined(s)
	assert.Contains(t, s.quarantine(&f).Text, "for another 31s", "its clock was set back")
}

// The default user may log in or not, with a password or without, and has some rights: what of that is amiss.
func TestDefaultUser(t *testing.T) {
	noACL, mayNot := errors.New("ERR unknown command 'ACL'"), errors.New("NOPERM not you")
	all := map[string]string{"commands": "+@all", "keys": "~*"}
	old := map[string]string{"commands": "+@all", "keys": "[*]"} // As Redis 6 says it.
	noWrites := map[string]string{"commands": "-@all +get", "keys": "~*"}
	noKeys := map[string]string{"commands": "+@all", "keys": "~app:*"}
	for name, tt := range map[string]struct {
		flags, protected, aof string
		rights                map[string]string
		err                   error
		quarantine            time.Duration
		want                  Verdict
	}{
		"off, all rights, an old server":   {flags: "[off allkeys allcommands]", aof: "1", rights: old},
		"off, may not write":               {flags: "[off]", aof: "1", rights: noWrites, want: Warning},
		"off, no rights":                   {flags: "[off]", aof: "1", want: Warning},
		"a password, may not use all keys": {flags: "[on]", aof: "1", rights: noKeys, want: Warning},
		"no rights, no AOF":                {flags: "[off]", aof: "0"},
		"no rights, quarantine":            {flags: "[off]", aof: "1", quarantine: time.Minute},
		"a password":                       {flags: "[on]", aof: "1", rights: all},
		"open":                             {flags: "[on nopass]", aof: "1", rights: all, want: Warning},
		"open, quarantine":                 {flags: "[on nopass]", aof: "1", rights: all, quarantine: time.Minute, want: Warning},
		"open to this machine":             {flags: "[on nopass]", aof: "1", rights: all, protected: "yes"},
		"off without a password":           {flags: "[off nopass]", aof: "1", rights: all},
		"open, with little to do":          {flags: "[on nopass]", aof: "0", rights: noKeys},
		"may not ask":                      {aof: "1", err: mayNot, want: Unknown},
		"may not ask, no AOF":              {aof: "0", err: mayNot},
		"no users":                         {aof: "1", err: noACL},
		"strange":                          {aof: "1", err: errors.New("ERR not now"), want: Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			f := goodFacts(1).with("aof_enabled", tt.aof)
			f.defaults, f.defaultsErr, f.protected = map[string]string{"flags": tt.flags}, tt.err, tt.protected
			maps.Copy(f.defaults, tt.rights)
			s := goodSurvey(f)
			s.Quarantine = tt.quarantine
			found := s.defaultUser(&f)
			assert.Equal(t, tt.want, found.Verdict, found)
			assert.Equal(t, tt.err != nil && tt.want == OK, found == Finding{})
		})
	}
}

func TestCertificateThatEndsSoon(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		life, left time.Duration
		want       Verdict
	}{
		"a year, new":           {365 * day, 364 * day, OK},
		"a year, 15 days left":  {365 * day, 15 * day, OK},
		"a year, 13 days left":  {365 * day, 13 * day, Warning},
		"a day, half of it":     {day, day / 2, OK},
		"a day, an hour of it":  {day, time.Hour, Warning},
		"it has ended":          {365 * day, -time.Hour, Warning},
		"it has just been made": {time.Minute, time.Minute, OK},
	} {
		end := time.Now().Add(tt.left)
		f := facts{issued: &x509.Certificate{NotBefore: end.Add(-tt.life), NotAfter: end}}
		found := goodSurvey().certificate(&f)
		assert.Equal(t, tt.want, found.Verdict, name)
		assert.Contains(t, found.Text, "its certificate ends at "+end.UTC().Format(time.DateOnly), name)
	}
}

// A user of other keys takes another prefix, and not the rights to all keys.
func TestACLOfAnotherPrefix(t *testing.T) {
	const says = "NOPERM this user has no permissions to access one of the keys used as arguments"
	f := goodFacts(1)
	f.probed, f.denials = false, []denial{{"evalsha", says}, {"eval", says}, {"subscribe", "NOPERM No permissions to access a channel"}}
	s := goodSurvey()
	assert.Equal(t, Finding{
		Verdict: Unfit, Text: "locks do not work: the user may not use keys that begin with p: (" + says + ")",
		Advice: "Give the prefix that the user's keys begin with (WithPrefix, --prefix), or grant the keys ~p:*",
	}, s.acl(&f))
	s.Prefix, s.Space = "", "own:"
	found := s.acl(&f)
	assert.Equal(t, "locks do not work: the user may not use keys without a prefix ("+says+")", found.Text)
	assert.NotContains(t, found.Advice, "~")
}

// What a server does not know, no right helps with: it was renamed or disabled there, or never known.
func TestUnknownCommandsAreNoMatterOfRights(t *testing.T) {
	s := goodSurvey()
	for says, known := range map[string]bool{
		"ERR unknown command `ZADD`":                       false,
		"@user_script: 1: Unknown command called from Lua": false,
		"ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.":  false,
		"The user executing the script can't run this":     true,
		"ERR the known command is unknown":                 true,
	} {
		f := goodFacts(1)
		f.denials = []denial{{"zadd", says}, {"script|load", says}}
		found := s.acl(&f)
		assert.Contains(t, found.Text, map[bool]string{true: " refuses ", false: " does not know "}[known]+"ZADD, SCRIPT LOAD (", says)
		assert.Equal(t, known, found.Advice == "Grant +zadd +script|load", says)
	}
	f := goodFacts(1)
	f.denials = []denial{{"time", "NOPERM"}, {"evalsha", "ERR unknown command 'EVALSHA'"}}
	assert.Equal(t, Finding{
		Verdict: Unfit,
		Text:    "locks do not work: the server does not know EVALSHA (ERR unknown command 'EVALSHA'), and refuses TIME (NOPERM)",
		Advice:  "No right helps: have the server know EVALSHA by that name (no rename-command), or use another server. Grant +time",
	}, s.acl(&f))
	f.infoErr, f.info = errors.New("INFO: ERR unknown command 'INFO'"), nil
	f.timeErr, f.rtt = errors.New("TIME: ERR unknown command 'TIME'"), 0
	s.Quarantine = time.Minute
	for _, found := range []Finding{s.version(&f), s.clock(&f), s.quarantine(&f)} {
		assert.NotContains(t, found.Advice, "+")
		assert.Contains(t, found.Advice, "no rename-command")
	}
}

// A Redis Cluster may be the only node, if all keys are in one slot and a failover is bridged.
func TestClusterMayBeTheOnlyNode(t *testing.T) {
	for prefix, want := range map[string]Verdict{
		"": Unfit, "locks:": Unfit, "{}:": Unfit, "}{": Unfit, "{locks}:": Warning, "my:{l}": Warning, "{}{l}:": Unfit,
	} {
		f := goodFacts(0).with("cluster_enabled", "1")
		s := goodSurvey(f, f)
		s.Prefix = prefix
		assert.Equal(t, Unfit, s.cluster(&f).Verdict, "one of several: %q", prefix)
		s.nodes = s.nodes[:1]
		assert.Equal(t, want, s.cluster(&f).Verdict, "%q", prefix)
		s.Quarantine = time.Minute
		if want == Warning {
			want = OK
		}
		assert.Equal(t, want, s.cluster(&f).Verdict, "quarantine: %q", prefix)
	}
}

func TestFindingsOfAllNodes(t *testing.T) {
	type set = map[string]Verdict
	same := func(database string) facts {
		f := goodFacts(1).with("run_id", strings.Repeat("a0", 20))
		f.database = database
		return f
	}
	at := func(i int, offset time.Duration) facts {
		f := goodFacts(i)
		f.offset = offset
		return f
	}
	far := func(i int, offset, rtt time.Duration) facts {
		f := at(i, offset)
		f.rtt = rtt
		return f
	}
	twice := set{"n0 same-server": Unfit, "n1 same-server": Unfit}
	for name, tt := range map[string]struct {
		nodes []facts
		want  set
		says  string
	}{
		"one":            {nodes: []facts{goodFacts(0)}, want: set{" node-count": Warning}, says: "no quorum to speak of"},
		"four":           {nodes: []facts{goodFacts(0), goodFacts(1), goodFacts(2), goodFacts(3)}, want: set{" node-count": Warning}, says: "than 3"},
		"same server":    {nodes: []facts{goodFacts(0), same("0"), goodFacts(2)}, want: twice, says: "the same server as n0,"},
		"two databases":  {nodes: []facts{goodFacts(0), same("1"), goodFacts(2)}, want: twice, says: "another database of the same server as n0,"},
		"either":         {nodes: []facts{goodFacts(0), same(""), goodFacts(2)}, want: twice, says: "the same server as n0, or another database of it"},
		"one clock":      {nodes: []facts{at(0, 0), at(1, 5*time.Second), at(2, 0)}, want: set{"n1 clock": Warning}, says: "5s ahead of"},
		"behind":         {nodes: []facts{at(0, 0), at(1, -5*time.Second), at(2, 0)}, want: set{"n1 clock": Warning}, says: "5s behind"},
		"half a second":  {nodes: []facts{at(0, 0), at(1, 500*time.Millisecond), at(2, 0)}},
		"a little more":  {nodes: []facts{at(0, 0), at(1, 502*time.Millisecond), at(2, 0)}, want: set{"n1 clock": Warning}},
		"not for sure":   {nodes: []facts{at(0, 0), far(1, 2*time.Second, 4*time.Second), at(2, 0)}, want: set{"n1 round-trip": Unfit}},
		"all but ours":   {nodes: []facts{at(0, 5*time.Second), at(1, 5*time.Second), at(2, 5*time.Second)}, want: set{" clock": Warning}},
		"two wrong ones": {nodes: []facts{at(0, 0), at(1, 5*time.Second), at(2, 5*time.Second), at(3, 0), at(4, 0)}, want: set{"n1 clock": Warning, "n2 clock": Warning}},
		"the only one":   {nodes: []facts{at(0, 5*time.Second)}, want: set{"n0 clock": Warning, " clock": Warning, " node-count": Warning}},
		"all down": {
			nodes: []facts{{node: "n0", down: errors.New("node timeout")}, {node: "n1", down: errors.New("node timeout")}, {node: "n2", down: errors.New("node timeout")}},
			want:  set{"n0 reachable": Unfit, "n1 reachable": Unfit, "n2 reachable": Unfit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := goodSurvey(tt.nodes...).report()
			want := set{}
			maps.Copy(want, tt.want)
			assert.Equal(t, want, worseThanOK(t, r))
			assert.Contains(t, texts(r), tt.says)
		})
	}
}

// The order of a report is that of the nodes, then of the checks. What is amiss is said in the words that people see, with what to do about it.
func TestFindingsAreSentences(t *testing.T) {
	noInfo := goodFacts(1)
	noInfo.info, noInfo.infoErr = nil, errors.New("INFO: NOPERM\r\nno")
	noInfo.offset = -5 * time.Second
	r := goodSurvey(goodFacts(0), noInfo, facts{node: "n2", down: errors.New("refused")}, goodFacts(3)).report()
	assert.Equal(t, `verdict: unfit
n0: Redis 7.4.1, up 24h0m0s, round trip 1ms, clock +0s ± 500µs
n1: round trip 1ms, clock -5s ± 500µs
  unknown version, role, cluster, eviction, memory, persistence, same-server: "INFO: NOPERM\r\nno". Grant the right +info, or look at the server's settings by other means.
  warning clock: its clock is 5s behind this client's and 5s behind the median of all, give or take 500µs. Synchronise the clock of its machine (NTP, slewing rather than stepping), while no locks are held.
n2:
  unfit reachable: it does not answer: refused. Look whether it runs, and whether address, network, password and TLS are right.
n3: Redis 7.4.1, up 24h0m0s, round trip 1ms, clock +0s ± 500µs
all nodes:
  warning node-count: 4 nodes tolerate no more failures than 3. Use three or five nodes that fail independently.
`, r.String())
	assert.Equal(t, OK, Report{}.Verdict())
	assert.Equal(t, "Verdict(9)", Verdict(9).String())
	assert.Less(t, len(words(strings.Repeat("x", 1000))), 210)
	assert.True(t, OK < Unknown && Unknown < Warning && Warning < Unfit)
}

// What is tried is what the scripts call, and the probe tries it.
func TestRightsAreThoseOfTheScripts(t *testing.T) {
	files, err := filepath.Glob("../scripts/*.lua")
	require.NoError(t, err)
	others, err := filepath.Glob("../../internal/*/*.lua")
	require.NoError(t, err)
	files = append(files, others...)
	require.Len(t, files, 16)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(string(text), -1) {
			right := strings.ToLower(m[1])
			if right != "info" { // Which the configuration takes.
				assert.Contains(t, slices.Concat(lockRights, waitRights), right, file)
				assert.Contains(t, strings.ToLower(probeText), "try('"+right+"'", file)
			}
		}
	}
}
