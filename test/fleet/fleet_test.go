//go:build unix

package main

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock/stored"
	"github.com/seed6c881748/redlock/test/child"
	"github.com/seed6c881748/redlock/test/testkit"
)

// How a fleet is upgraded, one process after the other: what two versions of the library, in different processes, tell
// each other through the nodes. OLD is the other version, a commit or a tag. Without it that is the last tag, and while
// there is none, the commit before clients told each other of their sets of nodes.
const beforeSets = "6d391390"

// ttl is so long that nobody who waits asks again because a holder's keys should have expired: a test that waits for that
// would not notice that no message comes.
const ttl = 10 * time.Minute

// A version is one of the two that speak with each other.
type version struct {
	name   string
	client string // the program
}

// versions returns the clients of both. Where the history of the repository is not there, the test is skipped.
var versions = sync.OnceValues(func() (both [2]version, err error) {
	tree, err := older()
	if err != nil {
		return both, err
	}
	files, err := os.ReadFile("main.go")
	if err == nil {
		err = os.MkdirAll(filepath.Join(tree, "test/fleet"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tree, "test/fleet/main.go"), files, 0o600)
	}
	if err != nil {
		return both, err
	}
	both = [2]version{{"old", filepath.Join(tree, "client.old")}, {"new", filepath.Join(tree, "client.new")}}
	return both, cmp.Or(run(filepath.Join(tree, "test/fleet"), "go", "build", "-o", both[0].client, "main.go"),
		run(".", "go", "build", "-o", both[1].client, "."))
})

// tree is where the older version is, while the tests run.
var tree string

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(tree)
	os.Exit(code)
}

// oldName is what git knows the older version by.
func oldName() string {
	if name := os.Getenv("OLD"); name != "" {
		return name
	}
	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match=v*").Output()
	if err != nil {
		return beforeSets
	}
	return strings.TrimSpace(string(tag))
}

// older unpacks the older version.
func older() (_ string, err error) {
	if tree, err = os.MkdirTemp("", "redlock-fleet-"); err != nil {
		return "", err
	}
	file := filepath.Join(tree, "old.zip")
	if err = run("../..", "git", "archive", "--format=zip", "-o", file, oldName()); err != nil {
		return "", err
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = z.Close() }()
	return tree, os.CopyFS(tree, z)
}

// run runs a command in a folder. Its error has what the command has printed.
func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// both returns the two versions in both orders: who is first and who is second in a test.
func both(t *testing.T) [][2]version {
	t.Helper()
	requireHistory(t)
	v, err := versions()
	require.NoError(t, err)
	return [][2]version{v, {v[1], v[0]}}
}

// requireHistory skips a test in a copy of the repository that does not have the older version: an archive, a shallow clone.
func requireHistory(t *testing.T) {
	t.Helper()
	if err := run("../..", "git", "cat-file", "-e", oldName()+"^{commit}"); err != nil {
		t.Skipf("this copy of the repository does not have %s, the version to compare with", oldName())
	}
}

// A process is a client of one version.
type process struct {
	t    *testing.T
	name string
	*child.Process

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

func start(t *testing.T, c *testcluster.Cluster, v version, env ...string) *process {
	t.Helper()
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.DirectAddr())
	}
	cmd := exec.Command(v.client)
	cmd.Stderr = io.Discard // The library's log: nodes that go down are part of these tests.
	cmd.Env = append(os.Environ(), "FLEET_NODES="+strings.Join(addrs, " "), "FLEET_OWNER="+v.name)
	cmd.Env = append(cmd.Env, env...)
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	one := &process{t: t, name: v.name, Process: p, waiting: map[int]chan answer{}}
	go func() {
		for line := range p.Lines {
			var a answer
			if json.Unmarshal([]byte(line), &a) == nil {
				one.mu.Lock()
				one.waiting[a.ID] <- a
				one.mu.Unlock()
			}
		}
	}()
	return one
}

// begin has the process do something, and returns where the answer comes. A request without an ID gets one.
func (p *process) begin(q request) (id int, got <-chan answer) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.ID == 0 {
		p.last++
		q.ID = p.last
	}
	c := make(chan answer, 1)
	p.waiting[q.ID] = c
	require.NoError(p.t, p.Say(q))
	return q.ID, c
}

// end waits for an answer.
func (p *process) end(got <-chan answer) answer {
	p.t.Helper()
	select {
	case a := <-got:
		return a
	case <-p.Gone:
		p.t.Fatalf("the %s client has ended", p.name)
	case <-time.After(testkit.Patience):
		p.t.Fatalf("the %s client does not answer", p.name)
	}
	return answer{}
}

// does has the process do something, without error.
func (p *process) does(q request) (id int, a answer) {
	p.t.Helper()
	id, got := p.begin(q)
	a = p.end(got)
	require.Empty(p.t, a.Err, "%s: %+v", p.name, q)
	return id, a
}

// stands waits until a process stands in the line of a quorum of nodes, for as long as its retry delay at least.
func stands(t *testing.T, c *testcluster.Cluster, resource string) {
	t.Helper()
	testkit.Await(t, testkit.Patience, "somebody waits", func() bool {
		in := 0
		for _, n := range c.Nodes {
			line := stored.Keys{}.Line(resource)
			life, _ := testkit.Admin(t, n, "PTTL", line).(int64)
			if testkit.Admin(t, n, "ZCARD", line) == int64(1) && life > time.Minute.Milliseconds()*3/4 {
				in++
			}
		}
		return in > len(c.Nodes)/2
	})
}

// nothingReserved requires that whoever was told, and has come, has taken away what was reserved for it on a quorum.
func nothingReserved(t *testing.T, c *testcluster.Cluster, resource string) {
	t.Helper()
	reserved := 0
	for _, n := range c.Nodes {
		if testkit.Admin(t, n, "EXISTS", strings.TrimSuffix(stored.Keys{}.Line(resource), "l")+"r") == int64(1) {
			reserved++
		}
	}
	require.LessOrEqual(t, reserved, len(c.Nodes)/2, "who was told has come")
}

// A lock of one version excludes the other one, which is woken by its release, and gets a larger fence. Without that
// message it would ask again after a minute.
func TestFleetHandsOver(t *testing.T) {
	for _, v := range both(t) {
		t.Run(v[0].name+" to "+v[1].name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 5)
			first, second := start(t, c, v[0]), start(t, c, v[1])
			var fence int64
			for range 5 {
				id, a := first.does(request{Op: "lock", Resource: "x", TTL: ttl})
				require.Greater(t, a.Spans[0].Fence, fence)
				fence = a.Spans[0].Fence
				_, got := second.begin(request{Op: "lock", Resource: "x", TTL: ttl, Once: true})
				require.Contains(t, second.end(got).Err, v[0].name, "it says who holds the lock")
				first.does(request{ID: id, Op: "extend", TTL: ttl})

				waits, got := second.begin(request{Op: "lock", Resource: "x", TTL: ttl})
				stands(t, c, "x")
				released := time.Now()
				first.does(request{ID: id, Op: "unlock"})
				a = second.end(got)
				require.Empty(t, a.Err)
				require.Less(t, a.At.Sub(released), 30*time.Second, "it was woken")
				require.Greater(t, a.Spans[0].Fence, fence)
				fence = a.Spans[0].Fence
				nothingReserved(t, c, "x")
				second.does(request{ID: waits, Op: "unlock"})
				first, second = second, first
				v[0], v[1] = v[1], v[0]
			}
		})
	}
}

// Processes of both versions work on a hot resource, the newer ones in turns: nobody has it beside somebody else, fences
// grow with time, and every process gets locks. How many, the log says.
func TestFleetWorksTogether(t *testing.T) {
	v := both(t)[0]
	t.Parallel()
	c := testcluster.RunServers(t, 5)
	q := request{Op: "work", Resource: "hot", TTL: ttl, Callers: 3, For: 3 * time.Second, Turn: true}
	var all []span
	var got []int
	processes := []*process{start(t, c, v[0]), start(t, c, v[1]), start(t, c, v[0]), start(t, c, v[1])}
	var answers []<-chan answer
	for _, p := range processes {
		_, got := p.begin(q)
		answers = append(answers, got)
	}
	for i, p := range processes {
		a := p.end(answers[i])
		require.Empty(t, a.Err)
		require.Empty(t, a.Says)
		t.Logf("%s: %d locks", p.name, len(a.Spans))
		got = append(got, len(a.Spans))
		all = append(all, a.Spans...)
	}
	for i, p := range processes {
		require.Greater(t, 20*got[i], len(all), "the share of the %s client", p.name)
	}
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	for i, s := range all[1:] {
		require.False(t, s.From.Before(all[i].To), "%v beside %v", s, all[i])
		require.Greater(t, s.Fence, all[i].Fence)
	}
}

// Both versions keep the same marks for quarantine: neither takes the other's for a restart, and a node that has come back
// empty votes for neither until no lock from before can be left.
func TestFleetKeepsQuarantine(t *testing.T) {
	for _, v := range both(t) {
		t.Run(v[0].name+" before "+v[1].name, func(t *testing.T) {
			t.Parallel()
			const quarantine = "FLEET_QUARANTINE=3s"
			life := 3 * time.Second
			c := testcluster.RunServers(t, 3)
			first := start(t, c, v[0], quarantine)
			testkit.Await(t, testkit.Patience, "the quarantine of new nodes is over", func() bool {
				_, got := first.begin(request{Op: "lock", Resource: "a", TTL: life, Once: true})
				return first.end(got).Err == ""
			})
			second := start(t, c, v[1], quarantine)
			second.does(request{Op: "lock", Resource: "b", TTL: life, Once: true})

			_, a := first.does(request{Op: "lock", Resource: "x", TTL: life, Once: true})
			require.NoError(t, c.First(2).Restart(false))
			testkit.Await(t, testkit.Patience, "the second version gets the lock", func() bool {
				_, got := second.begin(request{Op: "lock", Resource: "x", TTL: life, Once: true})
				b := second.end(got)
				require.True(t, b.Err != "" || b.Spans[0].From.After(a.Spans[0].To), "two have it")
				return b.Err == ""
			})
		})
	}
}
