package redlock_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/fitness"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// durable is how a fit server is started.
var durable = testcluster.WithArgs("--appendonly", "yes", "--appendfsync", "always")

// checked returns what Check says of nodes, and shows it.
func checked(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) redlock.Report {
	t.Helper()
	r := newPatient(t, nodes, opts...)
	report, err := r.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Nodes, len(nodes))
	t.Log("\n" + report.String())
	return report
}

// requireOnly checks that what is amiss are these checks of the node, with their
// verdicts, and nothing else anywhere. Each says what to do.
func requireOnly(t *testing.T, r redlock.Report, node string, want map[string]redlock.Verdict) {
	t.Helper()
	got := make(map[string]redlock.Verdict)
	for _, f := range r.Findings {
		if f.Verdict == redlock.VerdictOK {
			assert.Empty(t, f.Advice)
			continue
		}
		assert.NotEmpty(t, f.Advice, "%+v", f)
		assert.Equal(t, node, f.Node, "%+v", f)
		got[f.Check] = f.Verdict
	}
	require.Equal(t, want, got)
}

func TestRealCheckFindsNothingOnFiveGoodNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5, durable)
	nodes := serverNodes(c)
	nodes[0].Pool = c.Nodes[0].Pool()
	r := newPatient(t, nodes)
	for range 3 {
		report, err := r.Check(t.Context())
		require.NoError(t, err)
		require.Equal(t, redlock.VerdictOK, report.Verdict(), report)
		require.Len(t, report.Findings, 5*15+1)
		for i, n := range report.Nodes {
			require.Equal(t, nodes[i].Name, n.Node)
			require.NotEmpty(t, n.Product)
			require.NotEmpty(t, n.Version)
			require.Positive(t, n.RTT)
			require.LessOrEqual(t, n.ClockOffset.Abs(), n.ClockBound+2*time.Microsecond, "it is the same clock")
		}
		t.Log("\n" + report.String())
	}
	// Nothing is left, on either side: not even of the library's own.
	for _, n := range c.Nodes {
		all, err := n.Keys()
		require.NoError(t, err)
		require.Empty(t, all)
		await(t, 30*time.Second, "the connections are gone", func() bool { return clients(t, n) == 0 })
	}
}

// What is amiss with one of three nodes, by the settings of its server.
func TestRealCheckFindsSettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want map[string]redlock.Verdict
	}{
		"evicts any key": {
			[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			map[string]redlock.Verdict{"eviction": redlock.VerdictUnfit},
		},
		"evicts keys with a ttl": {
			[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"},
			map[string]redlock.Verdict{"eviction": redlock.VerdictUnfit},
		},
		"would evict": {
			[]string{"--maxmemory-policy", "allkeys-lru"},
			map[string]redlock.Verdict{"eviction": redlock.VerdictWarning},
		},
		"no persistence": {
			[]string{"--appendonly", "no"},
			map[string]redlock.Verdict{"persistence": redlock.VerdictWarning},
		},
		"fsync every second": {
			[]string{"--appendfsync", "everysec"},
			map[string]redlock.Verdict{"persistence": redlock.VerdictWarning},
		},
		"no fsync during rewrites": {
			[]string{"--no-appendfsync-on-rewrite", "yes"},
			map[string]redlock.Verdict{"persistence": redlock.VerdictWarning},
		},
		"timeout": {
			[]string{"--timeout", "29"},
			map[string]redlock.Verdict{"timeout": redlock.VerdictWarning},
		},
		"out of memory": {
			[]string{"--maxmemory", "1"},
			map[string]redlock.Verdict{"memory": redlock.VerdictUnfit, "writes": redlock.VerdictUnfit},
		},
		"cluster mode": {
			[]string{"--cluster-enabled", "yes"},
			map[string]redlock.Verdict{"cluster": redlock.VerdictUnfit, "writes": redlock.VerdictUnfit, "acl": redlock.VerdictUnknown},
		},
		"a password that we do not have": {
			[]string{"--requirepass", secret},
			map[string]redlock.Verdict{"reachable": redlock.VerdictUnfit},
		},
		"too few replicas to write": {
			[]string{"--min-replicas-to-write", "1"},
			map[string]redlock.Verdict{"writes": redlock.VerdictUnfit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := testcluster.RunServers(t, 2, durable)
			bad := testcluster.RunServers(t, 1, durable, testcluster.WithArgs(tt.args...))
			nodes := append(serverNodes(good), serverNodes(bad)...)
			requireOnly(t, checked(t, nodes), nodes[2].Name, tt.want)
		})
	}
}

func TestRealCheckFindsAReplica(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	other := testcluster.RunServers(t, 1, durable).Nodes[0]
	host, port, err := net.SplitHostPort(other.DirectAddr())
	require.NoError(t, err)
	admin(t, c.Nodes[1], "REPLICAOF", host, port)
	nodes := serverNodes(c)
	report := checked(t, nodes)
	assert.Equal(t, redlock.VerdictUnfit, report.Verdict())
	requireOnly(t, report, nodes[1].Name, map[string]redlock.Verdict{"role": redlock.VerdictUnfit, "writes": redlock.VerdictUnfit})
	assert.Contains(t, found(t, report, nodes[1].Name, "role").Text, "replica")

	// Its master may be failed over.
	await(t, 30*time.Second, "the replica is connected", func() bool {
		info, infoErr := redis.String(admin(t, other, "INFO", "replication"), nil)
		require.NoError(t, infoErr)
		return strings.Contains(info, "connected_slaves:1")
	})
	nodes[1] = redlock.NewNode(other.DirectAddr())
	requireOnly(t, checked(t, nodes), nodes[1].Name, map[string]redlock.Verdict{"role": redlock.VerdictWarning})
}

func TestRealCheckFindsTheSameServer(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 2, durable)
	_, port, err := net.SplitHostPort(c.Nodes[1].DirectAddr())
	require.NoError(t, err)
	for path, says := range map[string]string{
		"":   "it is the same server as ",
		"/7": "it is another database of the same server as ",
	} {
		nodes := append(serverNodes(c), redlock.NewNode("redis://localhost:"+port+path))
		report := checked(t, nodes)
		for i, j := range map[int]int{1: 2, 2: 1} {
			f := found(t, report, nodes[i].Name, "same-server")
			assert.Equal(t, redlock.VerdictUnfit, f.Verdict)
			assert.Contains(t, f.Text, says+nodes[j].Name)
		}
		assert.Equal(t, redlock.VerdictOK, found(t, report, nodes[0].Name, "same-server").Verdict)
		bad := slices.DeleteFunc(report.Findings, func(f redlock.Finding) bool { return f.Verdict == redlock.VerdictOK })
		assert.Len(t, bad, 2)
	}
}

// shiftedClock is loaded into a server to make its clock wrong.
const shiftedClock = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) { const char *s = getenv("CLOCK_SHIFT"); return s ? atol(s) : 0; }

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	static int (*real)(struct timeval *restrict, void *restrict);
	if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
	int r = real(tv, tz);
	if (r == 0) tv->tv_sec += shift();
	return r;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(id, ts);
	if (r == 0 && id == CLOCK_REALTIME) ts->tv_sec += shift();
	return r;
}
`

// buildShiftedClock compiles it. Without a C compiler the test is skipped, unless
// CI is "true": there it fails.
func buildShiftedClock(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("LD_PRELOAD is Linux's")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	require.NoError(t, os.WriteFile(source, []byte(shiftedClock), 0o600))
	out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", lib, source, "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return lib
}

func TestRealCheckFindsAClockThatIsOff(t *testing.T) {
	t.Parallel()
	lib := buildShiftedClock(t)
	c := testcluster.RunServers(t, 4, durable)
	for _, shift := range []int{5, -5} {
		bad := testcluster.RunServers(t, 1, durable,
			testcluster.WithEnv("LD_PRELOAD="+lib, fmt.Sprintf("CLOCK_SHIFT=%d", shift)))
		for _, others := range []int{1, 2, 4} {
			nodes := append(serverNodes(c)[:others], serverNodes(bad)...)
			report := checked(t, nodes)
			last := report.Nodes[others]
			require.InDelta(t, time.Duration(shift)*time.Second, last.ClockOffset, float64(last.ClockBound+2*time.Microsecond))
			for _, n := range nodes {
				want := redlock.VerdictOK
				if n.Name == last.Node {
					want = redlock.VerdictWarning
				}
				require.Equal(t, want, found(t, report, n.Name, "clock").Verdict)
			}
			if others%2 == 0 {
				requireOnly(t, report, last.Node, map[string]redlock.Verdict{"clock": redlock.VerdictWarning})
			}
		}
	}
	// All agree, so it is the client's that is wrong.
	same := testcluster.RunServers(t, 3, durable, testcluster.WithEnv("LD_PRELOAD="+lib, "CLOCK_SHIFT=5"))
	requireOnly(t, checked(t, serverNodes(same)), "", map[string]redlock.Verdict{"clock": redlock.VerdictWarning})
}

// allRights are the rules of a user who may lock, wait and be checked, and no more.
func allRights() []string {
	rules := []string{"resetchannels", "~locks:*", "&locks:__redlock__:*", "+info", "+client|info", "+config|get", "+ping"}
	for _, right := range fitness.Rights() {
		rules = append(rules, "+"+right)
	}
	return rules
}

func TestRealCheckFindsMissingRights(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	check := func(user string, opts ...redlock.Option) redlock.Report {
		t.Helper()
		nodes := serverNodes(c)
		nodes[0] = redlock.NewNode("redis://" + user + ":" + url.QueryEscape(secret) + "@" + c.Nodes[0].DirectAddr())
		return checked(t, nodes, append([]redlock.Option{redlock.WithPrefix("locks:")}, opts...)...)
	}
	setUser(t, c.Nodes[0], "least", allRights()...)
	requireOnly(t, check("least"), "", map[string]redlock.Verdict{})

	unread := map[string]redlock.Verdict{}
	for _, name := range []string{"version", "cluster", "eviction", "memory", "persistence", "same-server", "role"} {
		unread[name] = redlock.VerdictUnknown
	}
	unfit, warned := map[string]redlock.Verdict{"acl": redlock.VerdictUnfit}, map[string]redlock.Verdict{"acl": redlock.VerdictWarning}
	for name, tt := range map[string]struct {
		rules []string
		want  map[string]redlock.Verdict
		says  string // of the finding "acl"
	}{
		"noscripts":  {[]string{"-eval", "-evalsha", "-script|load"}, map[string]redlock.Verdict{"acl": redlock.VerdictUnfit, "writes": redlock.VerdictUnknown}, "EVAL"},
		"noeval":     {[]string{"-eval"}, unfit, "refuses EVAL "},
		"noevalsha":  {[]string{"-evalsha"}, unfit, "refuses EVALSHA "},
		"noload":     {[]string{"-script|load"}, unfit, "refuses SCRIPT LOAD "},
		"noset":      {[]string{"-set"}, unfit, "refuses SET "},
		"nodel":      {[]string{"-del"}, unfit, "refuses DEL "},
		"nopublish":  {[]string{"-publish"}, warned, "refuses PUBLISH "},
		"nosub":      {[]string{"-subscribe"}, warned, "refuses SUBSCRIBE "},
		"nochannels": {[]string{"resetchannels"}, warned, "refuses SUBSCRIBE, PUBLISH "},
		"noline":     {[]string{"-zadd", "-zpopmin"}, warned, "refuses ZADD, ZPOPMIN "},
		"nokeys":     {[]string{"resetkeys", "~other:*"}, map[string]redlock.Verdict{"acl": redlock.VerdictUnfit, "writes": redlock.VerdictUnknown}, "key"},
		"noresource": {[]string{"resetkeys", "~locks:__redlock__:*"}, unfit, "a key outside of those of the library"},
		"readonly":   {[]string{"resetkeys", "~locks:__redlock__:*", "%R~locks:*"}, unfit, "a key outside of those of the library"},
		"declared":   {[]string{"resetkeys", "~*[^lr]"}, map[string]redlock.Verdict{"undeclared-keys": redlock.VerdictWarning}, ""},
		"notime":     {[]string{"-time"}, map[string]redlock.Verdict{"acl": redlock.VerdictWarning, "clock": redlock.VerdictUnknown}, "refuses TIME "},
		"noinfo":     {[]string{"-info"}, unread, ""},
		"noconfig":   {[]string{"-config|get"}, map[string]redlock.Verdict{"persistence": redlock.VerdictWarning}, ""},
		"noclient":   {[]string{"-client|info"}, map[string]redlock.Verdict{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			setUser(t, c.Nodes[0], name, append(allRights(), tt.rules...)...)
			report := check(name)
			node := report.Nodes[0].Node
			requireOnly(t, report, node, tt.want)
			assert.Contains(t, found(t, report, node, "acl").Text, tt.says)
			await(t, 30*time.Second, "what DEL did not remove is gone", func() bool {
				all, err := c.Nodes[0].Keys()
				require.NoError(t, err)
				return len(all) == 0
			})
		})
	}
	// What is needed depends on the options.
	requireOnly(t, check("nopublish", redlock.WithPolling()), "", map[string]redlock.Verdict{})
	requireOnly(t, check("notime", redlock.WithFencing()), c.Nodes[0].DirectAddr(),
		map[string]redlock.Verdict{"acl": redlock.VerdictUnfit, "clock": redlock.VerdictUnknown})
}

func TestRealCheckOfNodesThatAreDownOrHang(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	nodes := serverNodes(c)
	r := newPatient(t, nodes, redlock.WithNodeTimeout(300*time.Millisecond))
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Hang())
	start := time.Now()
	report, err := r.Check(t.Context())
	took := time.Since(start)
	require.NoError(t, c.Nodes[1].Resume())
	require.NoError(t, err)
	assert.Less(t, took, 3*time.Second+time.Second)
	t.Log("\n" + report.String())
	for i, says := range []string{"refused", "no reply in time"} {
		f := found(t, report, nodes[i].Name, "reachable")
		assert.Equal(t, redlock.VerdictUnfit, f.Verdict)
		assert.Contains(t, f.Text, says)
	}
	require.NoError(t, c.Nodes[0].Restart(false))
	await(t, 30*time.Second, "all is well again", func() bool {
		report, err = r.Check(t.Context())
		require.NoError(t, err)
		return report.Verdict() == redlock.VerdictOK
	})
}

// A pool that has one connection, which locks use.
func TestRealCheckWithoutAConnectionToSpare(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	for _, wait := range []bool{false, true} {
		nodes := serverNodes(c)
		p := &redis.Pool{MaxActive: 1, MaxIdle: 1, Wait: wait, Dial: dialler(c.Nodes[0])}
		nodes[0].Pool = p
		r := newPatient(t, nodes, redlock.WithNodeTimeout(time.Second))
		// As long as nothing else uses it, there is one.
		report, err := r.Check(t.Context())
		require.NoError(t, err)
		require.Equal(t, redlock.VerdictOK, report.Verdict(), report)
		awaitAll(t, c, r, 30*time.Second)
		for range rounds(3, 1) {
			report, err = r.Check(t.Context())
			require.NoError(t, err)
			requireOnly(t, report, nodes[0].Name, map[string]redlock.Verdict{"reachable": redlock.VerdictUnknown})
		}
		t.Log("\n" + report.String())
		awaitAll(t, c, r, 30*time.Second)
		require.NoError(t, r.Close(context.Background()))
		require.Zero(t, p.ActiveCount()-p.IdleCount())
		require.NoError(t, p.Close())
	}
}
