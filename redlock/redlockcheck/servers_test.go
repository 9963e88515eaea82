package redlockcheck

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// durable is how a fit server is started.
var durable = testcluster.WithArgs("--appendonly", "yes", "--appendfsync", "always")

func TestRunFindsNothingOnFiveGoodNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 5, durable)
	nodes := serverNodes(c)
	nodes[0].Pool = c.Nodes[0].Pool()
	report := checkPatiently(t, nodes)
	require.Equal(t, OK, report.Verdict(), report)
	require.Len(t, report.Findings, 5*17+1)
	for i, n := range report.Nodes {
		require.Equal(t, nodes[i].Name, n.Node)
		require.NotEmpty(t, n.Product)
		require.NotEmpty(t, n.Version)
		require.Positive(t, n.RTT)
	}
	// Nothing is left, on either side: not even of the library's own.
	for _, n := range c.Nodes {
		all, err := n.Keys()
		require.NoError(t, err)
		require.Empty(t, all)
		testkit.Await(t, testkit.Patience, "the connections are gone", func() bool { return clients(t, n) == 0 })
	}
}

// What is amiss with one of three nodes, by the settings of its server.
func TestRunFindsSettings(t *testing.T) {
	t.Parallel()
	type set = map[string]Verdict
	for args, want := range map[string]set{
		"--maxmemory 100mb --maxmemory-policy allkeys-lru":  {"eviction": Unfit},
		"--maxmemory 100mb --maxmemory-policy volatile-ttl": {"eviction": Unfit},
		"--maxmemory-policy allkeys-lru":                    {"eviction": Warning},
		"--appendonly no":                                   {"persistence": Warning},
		"--appendfsync everysec":                            {"persistence": Warning},
		"--no-appendfsync-on-rewrite yes":                   {"persistence": Warning},
		"--timeout 29":                                      {"timeout": Warning},
		"--save 3600 1":                                     {"snapshots": Warning},
		"--save 3600 1 --appendonly no":                     {"persistence": Warning},
		"--protected-mode no":                               {"default-user": Warning},
		"--maxmemory 1":                                     {"memory": Unfit, "writes": Unfit},
		"--cluster-enabled yes":                             {"cluster": Unfit, "writes": Unfit, "acl": Unknown},
		"--requirepass secret":                              {"reachable": Unfit},
		"--min-replicas-to-write 1":                         {"writes": Unfit},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			good := testcluster.RunServers(t, 2, durable)
			bad := testcluster.RunServers(t, 1, durable, testcluster.WithArgs(strings.Fields(args)...))
			nodes := append(serverNodes(good), serverNodes(bad)...)
			requireOnly(t, checkPatiently(t, nodes), nodes[2].Name, want)
		})
	}
}

func TestRunFindsAReplica(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	other := testcluster.RunServers(t, 1, durable).Nodes[0]
	host, port, err := net.SplitHostPort(other.DirectAddr())
	require.NoError(t, err)
	admin(t, c.Nodes[1], "REPLICAOF", host, port)
	nodes := serverNodes(c)
	requireOnly(t, checkPatiently(t, nodes), nodes[1].Name, map[string]Verdict{"role": Unfit, "writes": Unfit})
}

func TestRunFindsTheSameServer(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 2, durable)
	_, port, err := net.SplitHostPort(c.Nodes[1].DirectAddr())
	require.NoError(t, err)
	for path, says := range map[string]string{
		"":   "it is the same server as ",
		"/7": "it is another database of the same server as ",
	} {
		nodes := append(serverNodes(c), redlock.NewNode("redis://localhost:"+port+path))
		report := checkPatiently(t, nodes)
		for i, j := range map[int]int{1: 2, 2: 1} {
			f := found(t, report, nodes[i].Name, "same-server")
			assert.Equal(t, Unfit, f.Verdict)
			assert.Contains(t, f.Text, says+nodes[j].Name)
		}
		assert.Len(t, worseThanOK(t, report), 2)
	}
}

// allRights are the rules of a user who may lock, wait and be checked, and no more.
func allRights() []string {
	rules := []string{"resetchannels", "~locks:*", "&locks:__redlock__:*", "+info", "+client|info", "+config|get", "+acl|getuser", "+ping"}
	for _, right := range slices.Concat(lockRights, waitRights) {
		rules = append(rules, "+"+right)
	}
	return rules
}

// The certificate is looked at where the database is given, too.
func TestRunLooksAtCertificates(t *testing.T) {
	t.Parallel()
	certificate, err := testcluster.NewCertificate()
	require.NoError(t, err)
	c := testcluster.RunServers(t, 3, durable, testcluster.WithTLS(certificate))
	nodes := serverNodes(c)
	nodes[1] = redlock.NewNode("rediss://"+c.Nodes[1].TLSAddr(), redis.DialTLSConfig(certificate.Client()))
	nodes[2] = redlock.NewNode("rediss://"+c.Nodes[2].TLSAddr(), redis.DialTLSConfig(certificate.Client()))
	nodes[2].Pool = redlock.InDatabase(nodes[2].Pool, 0)
	report := checkPatiently(t, nodes)
	assert.Equal(t, OK, report.Verdict())
	for _, n := range nodes[1:] {
		end := certificate.Leaf.NotAfter.UTC().Format("2006-01-02 15:04")
		assert.Contains(t, found(t, report, n.Name, "certificate").Text, "its certificate ends at "+end)
	}
}

func TestRunFindsMissingRights(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3, durable)
	checked := func(user string, opts ...redlock.Option) Report {
		t.Helper()
		nodes := serverNodes(c)
		nodes[0] = redlock.NewNode("redis://" + user + ":" + url.QueryEscape(secret) + "@" + c.Nodes[0].DirectAddr())
		return checkPatiently(t, nodes, append([]redlock.Option{redlock.WithPrefix("locks:")}, opts...)...)
	}
	setUser(t, c.Nodes[0], "least", allRights()...)
	requireOnly(t, checked("least"), "", map[string]Verdict{})

	unfit, warned := map[string]Verdict{"acl": Unfit}, map[string]Verdict{"acl": Warning}
	for name, tt := range map[string]struct {
		rules []string
		want  map[string]Verdict
		says  string // of the finding "acl"
	}{
		"noscripts":  {[]string{"-eval", "-evalsha", "-script|load"}, map[string]Verdict{"acl": Unfit, "writes": Unknown}, "EVAL"},
		"noeval":     {[]string{"-eval"}, unfit, "refuses EVAL "},
		"noload":     {[]string{"-script|load"}, unfit, "refuses SCRIPT LOAD "},
		"nodel":      {[]string{"-del"}, unfit, "refuses DEL "}, // What it did not remove ends by itself.
		"nopublish":  {[]string{"-publish"}, warned, "refuses PUBLISH "},
		"nochannels": {[]string{"resetchannels"}, warned, "refuses SUBSCRIBE, PUBLISH "},
		"noline":     {[]string{"-zadd", "-zpopmin"}, warned, "refuses ZADD, ZPOPMIN "},
		"nokeys":     {[]string{"resetkeys", "~other:*"}, map[string]Verdict{"acl": Unfit, "writes": Unknown}, "key"},
		"readonly":   {[]string{"resetkeys", "~locks:__redlock__:*", "%R~locks:*"}, unfit, "a key outside of those of the library"},
		"declared":   {[]string{"resetkeys", "~*[^lr]"}, map[string]Verdict{"undeclared-keys": Warning}, ""},
		"notime":     {[]string{"-time"}, map[string]Verdict{"acl": Warning, "clock": Unknown}, "refuses TIME "},
		"noconfig":   {[]string{"-config|get"}, map[string]Verdict{"persistence": Warning, "default-user": Warning}, ""},
		"nogetuser":  {[]string{"-acl|getuser"}, map[string]Verdict{"default-user": Unknown}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			setUser(t, c.Nodes[0], name, append(allRights(), tt.rules...)...)
			report := checked(name)
			node := report.Nodes[0].Node
			requireOnly(t, report, node, tt.want)
			assert.Contains(t, found(t, report, node, "acl").Text, tt.says)
		})
	}
	// What is needed depends on the options.
	requireOnly(t, checked("nopublish", redlock.WithPolling()), "", map[string]Verdict{})
	requireOnly(t, checked("notime", redlock.WithFencing()), c.Nodes[0].DirectAddr(),
		map[string]Verdict{"acl": Unfit, "clock": Unknown})
}
