package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var etcdLibrary = library{
	name:    "etcd",
	modules: []string{"go.etcd.io/etcd/client/v3"},
	setup: "concurrency.Mutex, one session of the same ttl for the process; one embedded member in a process of its own, " +
		"its defaults, so every change is synced to its disk first, in a temporary folder",
	servers: elsewhere,
	open:    openEtcd,
}

// openEtcd starts an etcd and connects to it.
func openEtcd(name string, o opening) (client, error) {
	server, err := startEtcd()
	if err != nil {
		return client{}, err
	}
	c, err := dialEtcd(name, server, o.ttl)
	if err != nil {
		return client{}, errors.Join(err, server.end())
	}
	disconnect := c.close
	c.close = func() {
		disconnect()
		_ = server.end()
	}
	return c, nil
}

// dialEtcd connects as a process does, with one session.
func dialEtcd(name string, server *etcdServer, ttl time.Duration) (client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return client{}, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return client{}, errors.Join(err, c.Close())
	}
	return client{
		name:      name,
		newWorker: func() worker { return &etcdWorker{session: session} },
		close:     func() { _ = c.Close() },
		serverCPU: func() time.Duration { return procTime(server.pid) },
	}, nil
}

type etcdWorker struct {
	session *concurrency.Session
	name    string
	mutex   *concurrency.Mutex
}

// lock uses its mutex again as long as the key is the same.
func (w *etcdWorker) lock(ctx context.Context, key string) error {
	if w.mutex == nil || w.name != key {
		w.name, w.mutex = key, concurrency.NewMutex(w.session, key)
	}
	return w.mutex.TryLock(ctx)
}

func (w *etcdWorker) unlock(ctx context.Context) error { return w.mutex.Unlock(ctx) }

// An etcdServer is a process of the command in folder etcd.
type etcdServer struct {
	cmd      *exec.Cmd
	stdin    io.Closer
	pid      string
	endpoint string
}

// startEtcd starts the command in folder etcd, a module of its own: the server is larger
// than all the other modules together.
func startEtcd() (*etcdServer, error) {
	cmd := exec.Command("go", "run", ".")
	cmd.Dir, cmd.Stderr = "etcd", os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	s := &etcdServer{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		var pid int
		_, err = fmt.Sscan(line, &pid, &s.endpoint)
		s.pid = strconv.Itoa(pid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("go run in bench/etcd: %w", err), s.end())
	}
	return s, nil
}

// end ends the process, which does so by itself when its input ends.
func (s *etcdServer) end() error { return errors.Join(s.stdin.Close(), s.cmd.Wait()) }
