package released

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	theirs "github.com/go-redsync/redsync/v4"
	theirredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	ourredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/child"
	"github.com/seed6c881748/redlock/test/testkit"
)

// variable has what kind of process this is, and the addresses of the nodes.
const variable = "REDSYNC_FLEET"

// TestMain is also the processes of a fleet.
func TestMain(m *testing.M) {
	kind, nodes, found := strings.Cut(os.Getenv(variable), "\n")
	if !found {
		os.Exit(m.Run())
	}
	takeTurns(kinds[kind](strings.Fields(nodes), 1))
}

// A mutex is that of either package.
type mutex interface {
	Lock() error
	Unlock() (bool, error)
	Until() time.Time
}

// kinds make what makes the mutexes of a process with so many callers at a time.
var kinds = map[string]func(addrs []string, callers int) func(key string) mutex{
	"redsync": func(addrs []string, callers int) func(string) mutex {
		var pools []theirredis.Pool
		for _, addr := range addrs {
			pools = append(pools, redigo.NewPool(&redis.Pool{MaxIdle: 2*callers + 8, Dial: func() (redis.Conn, error) {
				const limit = time.Second
				return redis.Dial("tcp", addr, redis.DialConnectTimeout(limit), redis.DialReadTimeout(limit), redis.DialWriteTimeout(limit))
			}}))
		}
		rs := theirs.New(pools...)
		return func(key string) mutex { return rs.NewMutex(key) }
	},
	"drop-in": func(addrs []string, _ int) func(string) mutex {
		var pools []ourredis.Pool
		for _, addr := range addrs {
			pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: addr})))
		}
		rs := redsync.New(pools...)
		return func(key string) mutex { return rs.NewMutex(key) }
	},
	"no lock": func([]string, int) func(string) mutex { return func(string) mutex { return none{} } },
}

// none excludes nobody, so that the test is seen to see it.
type none struct{}

func (none) Lock() error           { return nil }
func (none) Unlock() (bool, error) { return true, nil }
func (none) Until() time.Time      { return time.Now().Add(time.Hour) }

// takeTurns has turns until its input ends, and waits for the referee's word at both ends of each, so that whoever comes
// next cannot be heard before.
func takeTurns(newMutex func(key string) mutex) {
	input := bufio.NewReader(os.Stdin)
	say := func(words ...any) {
		fmt.Println(words...)
		if _, err := input.ReadString('\n'); err != nil {
			os.Exit(0)
		}
	}
	for {
		key := []string{"a", "b"}[rand.IntN(2)]
		m := newMutex(key)
		if err := m.Lock(); err != nil {
			say("failed", strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		say("enter", key, m.Until().UnixNano())
		time.Sleep(rand.N(5 * time.Millisecond))
		say("leave", key)
		_, _ = m.Unlock() // If it fails, the keys end.
	}
}

// A referee knows who is in a section, and until when it may be.
type referee struct {
	mu       sync.Mutex
	inside   map[string]stay
	turns    map[string]int    // by kind
	failed   map[string]string // by kind, the last failure
	overlaps []string
}

type stay struct {
	who   string
	until time.Time
}

// hear hears a process of that kind and name.
func (r *referee) hear(kind, who, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var key string
	var until int64
	verb, rest, _ := strings.Cut(line, " ")
	_, _ = fmt.Sscan(rest, &key, &until) // Of a failure, neither.
	other := r.inside[key]
	switch verb {
	case "enter":
		if left := time.Until(other.until); left > 0 {
			r.overlaps = append(r.overlaps, fmt.Sprintf("%s has %s while %s has it for %v", who, key, other.who, left))
		}
		r.turns[kind]++
		r.inside[key] = stay{who, time.Unix(0, until)}
	case "leave":
		if other.who == who {
			delete(r.inside, key)
		}
	default:
		r.failed[kind] = rest
	}
}

// runFleet has three processes of each kind take turns on five servers, of which one after the other is killed and
// started again with its data.
func runFleet(t *testing.T, took time.Duration, kinds ...string) *referee {
	t.Helper()
	const each, servers = 3, 5
	// Without a write to the disk before each answer, a restart may forget a lock.
	c := testcluster.RunServers(t, servers, testcluster.WithAppendOnly(), testcluster.WithArgs("--appendfsync", "always"))
	r := &referee{inside: map[string]stay{}, turns: map[string]int{}, failed: map[string]string{}}
	var hearing sync.WaitGroup
	var all []*child.Process
	for _, kind := range kinds {
		for i := range each {
			cmd := child.Self()
			cmd.Env = append(os.Environ(), variable+"="+kind+"\n"+strings.Join(c.Addrs(), "\n"))
			p, err := child.Start(cmd)
			require.NoError(t, err)
			t.Cleanup(p.Kill)
			all = append(all, p)
			hearing.Go(func() {
				for line := range p.Lines {
					r.hear(kind, fmt.Sprintf("%s %d", kind, i), line)
					_ = p.Say("go on") // It fails when the process is killed.
				}
			})
		}
	}
	restarts := 0
	for end := time.Now().Add(took); time.Now().Before(end); restarts++ {
		n := c.Nodes[restarts%servers]
		time.Sleep(time.Second)
		require.NoError(t, n.Stop())
		time.Sleep(time.Second)
		require.NoError(t, n.Restart(true))
	}
	for _, p := range all {
		p.Kill()
	}
	hearing.Wait()
	t.Logf("%v, %d servers killed and started again: turns %v, overlaps %d, the last failures %v",
		took, restarts, r.turns, len(r.overlaps), r.failed)
	return r
}

// A fleet may be changed over process by process.
func TestAMixedFleetHasNoOverlap(t *testing.T) {
	t.Parallel()
	took := 5 * time.Minute
	if testing.Short() {
		took = 8 * time.Second
	}
	for most := 8 * took; ; took *= 2 { // On a busy machine, some get nothing in a few seconds.
		r := runFleet(t, took, "redsync", "drop-in")
		require.Empty(t, r.overlaps)
		if r.turns["redsync"] > 2 && r.turns["drop-in"] > 2 {
			return
		}
		require.Less(t, took, most, "%v", r.turns)
		testkit.AwaitCalm(t)
	}
}

// The test above is worth nothing if it does not see those who lock nothing.
func TestAFleetWithoutLocksIsSeen(t *testing.T) {
	t.Parallel()
	for took := 2 * time.Second; len(runFleet(t, took, "drop-in", "no lock").overlaps) == 0; took *= 2 {
		require.Less(t, took, 20*time.Second, "no overlap was seen")
		testkit.AwaitCalm(t)
	}
}
