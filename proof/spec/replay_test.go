package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A replay plays a trace against the library. The trace says what the surroundings do: who asks when, which message
// reaches which node, how time passes, which key expires, which node restarts. The library decides the rest. What it
// would not do is left out, and the trace goes on.
//
// The one clock of the bubble is that of all clients, and runs as slowly as lease.pml allows with a ttl of three ticks:
// it shows three ticks when four have passed. Nodes' clocks may run twice as fast as that, which is three ticks when two
// have passed. So a drift factor of a half is just enough.
const (
	tick  = 100 * time.Second // as the clients' clocks show it
	ttl   = 4 * tick
	brief = 2 * tick // is good for one tick
	drift = 0.5
	fast  = 2 // how much faster a node's clock may run

	resource = "x"
)

type replay struct {
	t       *testing.T
	cluster *testcluster.Cluster
	clients []*player
	stored  []stored // by node

	mu    sync.Mutex
	wrong []string
}

// stored is the key of a node, and until when it cannot have expired.
type stored struct {
	ends, safe time.Time
}

// A player is a client of a trace.
type player struct {
	*redlock.Redlock

	number int
	ways   []*way // by node
	calls  sync.WaitGroup
	cancel []context.CancelFunc

	// Guarded by replay.mu.
	lock     *redlock.Lock
	extended int // how often
	asked    bool
	ended    bool
	robbed   bool // another one has got the lock since
}

// Each trace is played, and what it leads to with a broken rule must not come true.
func TestTracesDoNotComeTrue(t *testing.T) {
	for _, tr := range readTraces(t) {
		t.Run(tr.name, func(t *testing.T) {
			departed, wrong := play(t, tr.steps)
			assert.Empty(t, wrong)
			assert.NotEmpty(t, departed, "the library has done all that the trace says")
			t.Log(departed)
		})
	}
}

// A course that the rules allow is followed to the end: what a replay does not follow is the library's decision.
func TestReplayFollowsWhatIsRight(t *testing.T) {
	departed, wrong := play(t, strings.Split(strings.TrimSpace(`
client 1 asks for the lock
client 1's lock request reaches node 3
client 1's lock request reaches node 2
client 1 has the lock, ticks left: 2 at most
node 2 restarts without its data
a tick passes
client 1's lock request reaches node 1
client 1 asks for an extension
client 1's extension reaches node 3
client 1's extension reaches node 1
client 1 has the extension, ticks left: 2 at most
client 2 asks for the lock
a tick passes
client 1's repair reaches node 2
client 1 asks for a brief extension
client 1's extension reaches node 2
client 1's extension reaches node 3
client 1 has the extension, ticks left: 1 at most
client 1 ends
client 1's release reaches node 3
client 1's release reaches node 2
client 2's lock request reaches node 2
client 2's lock request reaches node 3
client 2 has the lock, ticks left: 1 at most
a tick passes
client 3 asks for the lock
a tick passes
the key of node 2 expires
the key of node 3 expires
client 3's lock request reaches node 3
client 3's lock request reaches node 2
client 3 has the lock, ticks left: 1 at most`), "\n"))
	require.Empty(t, departed)
	require.Empty(t, wrong)
}

// play returns where the library first did something else than the trace, and what was wrong.
func play(t *testing.T, steps []string) (departed string, wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newReplay(t)
		for i, step := range steps {
			came := r.step(step)
			synctest.Wait()
			r.look()
			if !came && departed == "" {
				departed = fmt.Sprintf("the library departs from the trace at step %d: %s", i+1, step)
			}
		}
		r.end()
		wrong = r.wrong
	})
	return departed, wrong
}

func newReplay(t *testing.T) *replay {
	t.Helper()
	r := &replay{t: t, cluster: testcluster.RunBubble(t, 3), stored: make([]stored, 3)}
	options := []redlock.Option{redlock.WithQuarantine(ttl), redlock.WithDriftFactor(drift), redlock.WithNodeTimeout(time.Hour)}
	// It sees each restart at once: its connections break. Those of the others go through something that hides it.
	watcher := testkit.NewRedlock(t, r.cluster, options...)
	_, _ = watcher.TryLock(t.Context(), []string{"first"}, ttl) // New nodes are in quarantine.
	time.Sleep(ttl + 2*quarantine.Margin)
	for number := range 3 {
		p := &player{number: number + 1}
		nodes := make([]redlock.Node, len(r.cluster.Nodes))
		for i, n := range r.cluster.Nodes {
			p.ways = append(p.ways, newWay(t, n))
			nodes[i] = redlock.Node{Name: n.Name(), Pool: p.ways[i]}
		}
		var err error
		p.Redlock, err = redlock.New(nodes, options...)
		require.NoError(t, err)
		testkit.Warm(t, p.Redlock)
		r.clients = append(r.clients, p)
	}
	return r
}

var steps = []struct {
	re *regexp.Regexp
	do func(r *replay, c, n int, what string) (came bool)
}{
	{regexp.MustCompile(`^client (?P<c>\d) asks for (?P<what>the lock|an extension|a brief extension)$`), (*replay).ask},
	{regexp.MustCompile(`^client (?P<c>\d)'s (?P<what>lock request|extension|repair|release) reaches node (?P<n>\d)$`), (*replay).deliver},
	{regexp.MustCompile(`^client (?P<c>\d) has the (?P<what>lock|extension), ticks left: (?P<n>\d) at most$`), (*replay).decide},
	{regexp.MustCompile(`^client (?P<c>\d) ends$`), (*replay).give},
	{regexp.MustCompile(`^the key of node (?P<n>\d) expires$`), (*replay).expire},
	{regexp.MustCompile(`^node (?P<n>\d) restarts without its data$`), (*replay).restart},
	{regexp.MustCompile(`^a tick passes$`), (*replay).tick},
}

// step does one step of a trace, and says whether what the library has to do with it is as the trace says.
func (r *replay) step(line string) (came bool) {
	for _, s := range steps {
		m := s.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := s.re.SubexpIndex(name); i >= 0 {
				return m[i]
			}
			return ""
		}
		c, _ := strconv.Atoi(group("c"))
		n, _ := strconv.Atoi(group("n"))
		return s.do(r, c-1, n-1, group("what"))
	}
	require.Fail(r.t, "no such step", line)
	return false
}

func (r *replay) ask(c, _ int, what string) bool {
	p := r.clients[c]
	ctx, cancel := context.WithCancel(r.t.Context())
	p.cancel = append(p.cancel, cancel)
	if what == "the lock" {
		p.asked = true
		p.calls.Go(func() {
			if l, err := p.TryLock(ctx, []string{resource}, ttl); err == nil {
				r.got(p, l)
			}
		})
		return true
	}
	r.mu.Lock()
	l := p.lock
	r.mu.Unlock()
	if l == nil || p.ended {
		return false
	}
	p.hear()
	p.breakWays() // What was sent before may still arrive, but the extension need not wait for it.
	more := ttl
	if what == "a brief extension" {
		more = brief
	}
	p.calls.Go(func() {
		if l.Extend(ctx, more) == nil {
			r.got(p, l)
		}
	})
	return true
}

// got notes that p has the lock, or an extension of it.
func (r *replay) got(p *player, l *redlock.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.lock != nil {
		p.extended++
	}
	p.lock = l
	if p.robbed {
		r.wrong = append(r.wrong, fmt.Sprintf("client %d extends a lock that was another's in between", p.number))
	}
	for _, other := range r.clients {
		if other != p && other.lock != nil && !other.ended {
			other.robbed = true
		}
	}
}

// look looks at who believes to have the lock.
func (r *replay) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var believe []int
	for _, p := range r.clients {
		if p.lock != nil && !p.ended && p.lock.Err() == nil {
			believe = append(believe, p.number)
		}
	}
	if len(believe) > 1 {
		r.wrong = append(r.wrong, fmt.Sprintf("clients %v have the lock at a time", believe))
	}
}

// deliver has a message be carried out. A repair is sent when every node has answered an extension, so those that the
// trace does not speak of are asked now.
func (r *replay) deliver(c, n int, what string) bool {
	p := r.clients[c]
	if what == "repair" {
		for _, w := range p.ways {
			w.deliver("extension", false)
		}
		p.hear()
		synctest.Wait()
	}
	before := r.token(n)
	came := p.ways[n].deliver(what, true)
	r.note(n)
	if what == "release" {
		return came && before != "" && r.token(n) == ""
	}
	return came && p.ways[n].token == r.token(n)
}

// decide has the client hear the answers. It is to have the lock for that many ticks and a part of the next.
func (r *replay) decide(c, ticks int, what string) bool {
	p := r.clients[c]
	had := p.extended
	p.hear()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.lock != nil && (what == "lock" || p.extended > had) && time.Until(p.lock.Until()) > time.Duration(ticks)*tick
}

// give has the client give up, or unlock.
func (r *replay) give(c, _ int, _ string) bool {
	p := r.clients[c]
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.lock != nil && !p.ended {
		l := p.lock
		p.calls.Go(func() { _ = l.Unlock(r.t.Context()) })
	}
	p.ended = true
	for _, cancel := range p.cancel {
		cancel()
	}
	return true
}

// expire ends a key if a clock within the bounds may have done so.
func (r *replay) expire(_, n int, _ string) bool {
	if r.token(n) == "" || time.Now().Before(r.stored[n].safe) {
		return false
	}
	require.NoError(r.t, r.cluster.Nodes[n].Del(resource))
	return true
}

func (r *replay) restart(_, n int, _ string) bool {
	require.NoError(r.t, r.cluster.Nodes[n].Restart(false))
	time.Sleep(time.Second)
	return true
}

// tick has time pass, for the nodes' quarantine as fast as it may.
func (r *replay) tick(_, _ int, _ string) bool {
	time.Sleep(tick)
	for _, n := range r.cluster.Nodes {
		text, _, err := n.Get(testkit.MarkerKey)
		require.NoError(r.t, err)
		fields := strings.Fields(text)
		since, err := strconv.ParseInt(fields[4], 10, 64)
		require.NoError(r.t, err)
		fields[4] = fmt.Sprint(since - (fast-1)*tick.Milliseconds())
		require.NoError(r.t, n.Set(testkit.MarkerKey, strings.Join(fields, " "), 0))
	}
	return true
}

// token is whose key a node has; empty for nobody's.
func (r *replay) token(n int) string {
	value, _, err := r.cluster.Nodes[n].Get(resource)
	require.NoError(r.t, err)
	return value
}

// note notes how long the key of a node lives at least, if that has changed.
func (r *replay) note(n int) {
	all, err := r.cluster.Nodes[n].Keys()
	require.NoError(r.t, err)
	left := all[resource].TTL
	if ends := time.Now().Add(left); ends.Sub(r.stored[n].ends).Abs() > time.Second {
		r.stored[n] = stored{ends: ends, safe: time.Now().Add(left / fast)}
	}
}

// end lets everything through, looks once more, and closes the clients.
func (r *replay) end() {
	for _, p := range r.clients {
		for _, w := range p.ways {
			w.open()
		}
	}
	synctest.Wait()
	r.look()
	for c, p := range r.clients {
		r.give(c, 0, "")
		p.calls.Wait()
		require.NoError(r.t, p.Close(r.t.Context()))
	}
}

func (p *player) hear() {
	for _, w := range p.ways {
		w.hear()
	}
}

func (p *player) breakWays() {
	for _, w := range p.ways {
		w.breakIfStuck()
	}
	time.Sleep(time.Second) // They are made again.
}

type trace struct {
	name  string
	steps []string
}

var numbered = regexp.MustCompile(`^\d+\. (.*)$`)

func readTraces(t *testing.T) (all []trace) {
	t.Helper()
	text, err := os.ReadFile("traces.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			all = append(all, trace{name: name})
		} else if m := numbered.FindStringSubmatch(line); m != nil {
			all[len(all)-1].steps = append(all[len(all)-1].steps, m[1])
		}
	}
	return all
}

// The traces are those of the rules and variants as they are. Spin need not be there for that.
func TestTracesAreNotOutOfDate(t *testing.T) {
	text, err := os.ReadFile("traces.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "\nVersion: ")
	require.Equal(t, version(), strings.Fields(rest)[0], "make spec-traces writes them")
	all := readTraces(t)
	require.Len(t, all, len(variants))
	for i, v := range variants {
		require.Equal(t, v.Name, all[i].name)
		require.NotEmpty(t, all[i].steps)
		require.NotEqual(t, lease, v.model(), "the variant changes nothing")
		require.Contains(t, lease, "#define "+v.Rule+" ")
	}
}

var named = regexp.MustCompile(`((?:redlock|internal)/[\w/]+\.(?:go|lua))(?:: (\w+(?:, \w+\b)*))?`)

// What the specification names is there.
func TestNamesOfTheSpecificationAreThoseOfTheCode(t *testing.T) {
	all := named.FindAllStringSubmatch(lease, -1)
	require.Greater(t, len(all), 10)
	for _, m := range all {
		code, err := os.ReadFile(filepath.Join("..", "..", m[1]))
		require.NoError(t, err)
		for _, name := range strings.Split(m[2], ", ") {
			if name != "" {
				assert.True(t, regexp.MustCompile(`(?m)^func (\(.*?\) )?`+name+`\(`).Match(code), m[0])
			}
		}
	}
}
