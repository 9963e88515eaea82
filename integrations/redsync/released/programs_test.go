package released

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/redsync"
	"github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// What public programs do with redsync, in their words, with the path of the import changed. And what they are told to do.

func newClient(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testcluster.RunServers(t, 1).Addrs()[0]})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A jobLock makes all it needs for each job.
func jobLock(ctx context.Context, client redis.UniversalClient, name string, work func()) error {
	mutex := redsync.New(goredis.NewPool(client)).NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(1))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer func() { _, _ = mutex.UnlockContext(ctx) }()
	work()
	return nil
}

func TestAJobLock(t *testing.T) {
	type configured struct{ redis.UniversalClient } // A client of the program's own.
	client := newClient(t)
	require.NoError(t, jobLock(t.Context(), client, "warm", func() {}))
	connections := func() int { return strings.Count(client.ClientList(t.Context()).Val(), "\n") }
	goroutines, connected := runtime.NumGoroutine(), connections()
	for i := range 1000 {
		require.NoError(t, jobLock(t.Context(), configured{client}, fmt.Sprint(i%10), func() {}))
	}
	assert.Less(t, runtime.NumGoroutine(), goroutines+20)
	assert.Less(t, connections(), connected+5)
}

// A breaker lets one process through: who does not get the lock is no error, and anything else is one.
func letThrough(ctx context.Context, rs *redsync.Redsync, name string, o ...redsync.Option) (bool, error) {
	if err := rs.NewMutex(name, append(o, redsync.WithTries(1))...).LockContext(ctx); err != nil {
		var taken *redsync.ErrTaken
		if errors.Is(err, redsync.ErrFailed) || errors.As(err, &taken) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

func TestABreaker(t *testing.T) {
	client := newClient(t)
	rs := redsync.New(goredis.NewPool(client))
	require.NoError(t, rs.NewMutex("held").Lock())
	through, err := letThrough(t.Context(), rs, "held")
	require.NoError(t, err)
	assert.False(t, through)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	for name, wrong := range map[string]func() (bool, error){
		"an ended context": func() (bool, error) { return letThrough(ended, rs, "x") },
		"no expiry":        func() (bool, error) { return letThrough(t.Context(), rs, "x", redsync.WithExpiry(0)) },
		"no pool":          func() (bool, error) { return letThrough(t.Context(), redsync.New(nil), "x") },
		"a Cluster":        func() (bool, error) { return letThrough(t.Context(), redsync.New(goredis.NewPool(cluster)), "x") },
	} {
		through, err = wrong()
		require.Error(t, err, name)
		assert.False(t, through, name)
	}
	through, err = letThrough(t.Context(), rs, "x", redsync.WithSetNXOnExtend())
	require.NoError(t, err)
	assert.True(t, through)
}

// A leader locks once, and extends for as long as it lives.
func TestALeader(t *testing.T) {
	client := newClient(t)
	const term = 300 * time.Millisecond
	leader := func() *redsync.Mutex {
		return redsync.New(goredis.NewPool(client)).NewMutex("leader", redsync.WithExpiry(term), redsync.WithTries(1), redsync.WithSetNXOnExtend())
	}
	a, b := leader(), leader()
	require.NoError(t, a.Lock())
	require.Error(t, b.Lock())
	leads := func(m *redsync.Mutex) bool { ok, err := m.Extend(); return ok && err == nil }
	require.Eventually(t, func() bool { return leads(b) }, time.Minute, term/3, "a stands still, and b takes over")
	assert.False(t, leads(a) && time.Until(b.Until()) > 0)
	require.Eventually(t, func() bool { return leads(a) }, time.Minute, term/3, "and a again")
	_, err := a.Unlock()
	require.NoError(t, err)
	assert.False(t, leads(a))
	require.Eventually(t, func() bool { return leads(b) }, time.Minute, term/3)
}

// A registry has where its holder is in the value of the key.
func TestARegistry(t *testing.T) {
	type service struct {
		Address string
		Port    int
	}
	client := newClient(t)
	m := redsync.New(goredis.NewPool(client)).NewMutex("service", redsync.WithGenValueFunc(func() (string, error) {
		text, err := json.Marshal(service{"10.0.0.7", 7890})
		return string(text), err
	}))
	require.NoError(t, m.Lock())
	_, text, found := strings.Cut(client.Get(t.Context(), "service").Val(), " owner=") // As the documents say.
	require.True(t, found)
	var got service
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	assert.Equal(t, service{"10.0.0.7", 7890}, got)
	assert.JSONEq(t, text, m.Value())
}

// A pool hands out tokens by turns. The caller's token is the value; another request of the process renews and releases it.
func TestARotatingTokenPool(t *testing.T) {
	rs := redsync.New(goredis.NewPool(newClient(t)))
	acquire := func(resource, token string) error {
		return rs.NewMutex(resource, redsync.WithTries(1), redsync.WithGenValueFunc(func() (string, error) { return token, nil })).Lock()
	}
	renew := func(resource, token string, d time.Duration) (bool, error) {
		return rs.NewMutex(resource, redsync.WithValue(token), redsync.WithExpiry(d)).Extend()
	}
	release := func(resource, token string) (bool, error) {
		return rs.NewMutex(resource, redsync.WithValue(token)).Unlock()
	}
	for i := range 20 {
		resource, token := fmt.Sprint("token", i%3), fmt.Sprintf("request %d %d", i, time.Now().UnixNano())
		require.NoError(t, acquire(resource, token))
		require.ErrorIs(t, acquire(resource, "another"), redlock.ErrTaken)
		ok, err := renew(resource, token, time.Minute)
		require.True(t, ok, err)
		ok, err = release(resource, "another")
		require.False(t, ok)
		require.Error(t, err)
		ok, err = release(resource, token)
		require.True(t, ok, err)
		_, err = release(resource, token)
		require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)
	}
}

// The program of docs/migrating.md does the same before and after the change that is shown there.
func TestTheProgramOfTheDocuments(t *testing.T) {
	document := read(t, "..", "..", "..", "docs", "migrating.md")
	shown := regexp.MustCompile("(?s)```diff\n(.*?)```").FindStringSubmatch(document)
	require.NotNil(t, shown, "docs/migrating.md shows no diff")
	was, is := sides(shown[1])
	before := read(t, "testdata", "program", "before.go")
	require.Equal(t, 1, strings.Count(before, was), "the program has not what is changed")

	addrs := strings.Join(testcluster.RunServers(t, 3).Addrs(), " ")
	said := runProgram(t, before, addrs)
	require.Contains(t, said, "reported\n")
	require.Equal(t, said, runProgram(t, strings.Replace(before, was, is, 1), addrs))
}

func runProgram(t *testing.T, program, addrs string) string {
	t.Helper()
	c := newCopy(t, "example.com/program")
	c.require("github.com/seed6c881748/redlock/integrations/redsync", "../")
	c.require("github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9", "../redis/goredis/v9")
	c.require("github.com/seed6c881748/redlock/integrations/goredis", "../../goredis")
	c.write("main.go", program)
	t.Setenv("REDIS_ADDRS", addrs)
	said, err := c.run("run", "-mod=mod", ".")
	require.NoError(t, err, said)
	return said
}

// sides are what a diff replaces, and what it puts there.
func sides(diff string) (was, is string) {
	for line := range strings.Lines(diff) {
		rest := strings.TrimLeft(line[:1], "-+ ") + line[1:]
		if !strings.HasPrefix(line, "+") {
			was += rest
		}
		if !strings.HasPrefix(line, "-") {
			is += rest
		}
	}
	return was, is
}
