package main

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// TestLibraries has two clients of each library, as two processes would have them, want
// the same key: one that is set up wrongly would be fast and exclude nobody.
func TestLibraries(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		cluster := testcluster.RunServers(t, nodes)
		these, _ := applicable(append(slices.Clone(compared), libraries.Fenced), nodes)
		for _, l := range these {
			if l.Servers == libraries.Elsewhere {
				continue // Its clients here would each have servers of their own.
			}
			t.Run(l.Name, func(t *testing.T) {
				o := on(cluster.Addrs(), 8*time.Second, 2)
				testExclusion(t, openTest(t, l, o), openTest(t, l, o), l.Name)
			})
		}
	}
}

// TestEtcd is TestLibraries for etcd: two clients of one server.
func TestEtcd(t *testing.T) {
	server, err := startEtcd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.end(); err != nil {
			t.Error(err)
		}
	})
	var clients []client
	for range 2 {
		c, err := dialEtcd(server, 8*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients = append(clients, c)
	}
	testExclusion(t, clients[0], clients[1], "etcd")
	if runtime.GOOS == "linux" && clients[0].ServerCPU() == 0 {
		t.Error("the server has used no processor time")
	}
}

func openTest(t *testing.T, l library, o opening) client {
	t.Helper()
	c, err := l.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// lockFree locks a key that was released. With fail-fast the release of the nodes that were not
// waited for may still be on its way, and the first attempts be refused there.
func lockFree(t *testing.T, w worker, key string) {
	t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if err = w.Try(context.Background(), key); err == nil {
			return
		}
	}
	t.Fatalf("a free key: %v", err)
}

// testExclusion has two workers lock in turn.
func testExclusion(t *testing.T, one, two client, key string) {
	t.Helper()
	ctx := context.Background()
	a, b := one.NewWorker(), two.NewWorker()
	for range 3 {
		lockFree(t, a, key)
		if err := b.Try(ctx, key); err == nil {
			t.Fatal("two have locked the same key")
		}
		// redsync with fail-fast cancels what a majority no longer needs, and now and then says so instead of nil.
		if err := a.Unlock(ctx); err != nil && (!strings.HasSuffix(key, "-failfast") || !strings.Contains(err.Error(), context.Canceled.Error())) {
			t.Fatalf("unlock: %v", err)
		}
		a, b = b, a
	}
}

func TestPick(t *testing.T) {
	names, err := list("only", "etcd, redlock", libraryNamed)
	if err != nil {
		t.Fatal(err)
	}
	if these := pick(names); len(these) != 2 || these[0].Name != "redlock" || these[1].Name != "etcd" {
		t.Errorf("pick = %v", these)
	}
	if these, others := applicable(compared, 5); len(these)+len(others) != len(compared) || len(others) != 2 {
		t.Errorf("on 5 nodes: without %v", others)
	}
	if _, others := applicable(compared, 1); len(others) != 0 {
		t.Errorf("on one node: without %v", others)
	}
}
