package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/test/child"
)

var etcdLibrary = library{
	Name:    "etcd",
	Modules: []string{"go.etcd.io/etcd/client/v3"},
	Setup: "concurrency.Mutex, one session of the same ttl for the process; one embedded member in a process of its " +
		"own, its defaults, so every change is synced to its disk first, in a temporary folder",
	Servers: libraries.Elsewhere,
	Open:    openEtcd,
}

// openEtcd starts an etcd and connects to it.
func openEtcd(o opening) (client, error) {
	server, err := startEtcd()
	if err != nil {
		return client{}, err
	}
	c, err := dialEtcd(server, o.TTL)
	if err != nil {
		return client{}, errors.Join(err, server.end())
	}
	disconnect := c.Close
	c.Close = func() {
		disconnect()
		_ = server.end()
	}
	return c, nil
}

// dialEtcd connects as a process does, with one session.
func dialEtcd(server *etcdServer, ttl time.Duration) (client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return client{}, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return client{}, errors.Join(err, c.Close())
	}
	return client{
		Name:      "etcd",
		NewWorker: func() worker { return &etcdWorker{session: session} },
		Close:     func() { _ = c.Close() },
		Elsewhere: true,
	}, nil
}

type etcdWorker struct {
	session *concurrency.Session
	name    string
	mutex   *concurrency.Mutex
}

// Try uses its mutex again as long as the key is the same.
func (w *etcdWorker) Try(ctx context.Context, key string) error {
	if w.mutex == nil || w.name != key {
		w.name, w.mutex = key, concurrency.NewMutex(w.session, key)
	}
	return w.mutex.TryLock(ctx)
}

func (w *etcdWorker) Unlock(ctx context.Context) error { return w.mutex.Unlock(ctx) }

// An etcdServer is a process of the command in folder etcd, a module of its own: the server is larger
// than all the other modules together.
type etcdServer struct {
	process  *child.Process
	endpoint string
}

func startEtcd() (*etcdServer, error) {
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = "etcd"
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &etcdServer{process: p}
	if s.endpoint, err = p.Line(); err != nil {
		return nil, errors.Join(fmt.Errorf("go run in bench/etcd: %w", err), s.end())
	}
	return s, nil
}

// end ends the process, which does so by itself when its input ends.
func (s *etcdServer) end() error { return s.process.Close() }
