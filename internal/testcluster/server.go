package testcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// StartServers starts n real servers, see [ServerBinary], on free loopback
// ports, each with a temporary folder of its own. It returns once all of them
// answer. [Cluster.Close] kills them; on Linux they also die with this process.
func StartServers(n int, opts ...ServerOption) (*Cluster, error) {
	var o serverOptions
	for _, opt := range opts {
		opt(&o)
	}
	bin, err := ServerBinary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	for i := range n {
		node, err := startServer("node"+strconv.Itoa(i+1), bin, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Nodes = append(c.Nodes, node)
	}
	c.SetSeed(1)
	return c, nil
}

// startServer starts one server and the proxy in front of it.
func startServer(name, bin string, o serverOptions) (*Node, error) {
	dir, err := os.MkdirTemp("", "redlock-")
	if err != nil {
		return nil, err
	}
	s := &realServer{name: name, bin: bin, opts: o, dir: dir}
	node := &Node{name: name, backend: s}
	node.proxy = NewProxy(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.addr())
	})
	if o.tls != nil {
		if s.cert, s.key, err = o.tls.Write(dir); err != nil {
			return nil, errors.Join(err, node.close())
		}
	}
	if err = s.startAnywhere(); err != nil {
		return nil, errors.Join(err, node.close())
	}
	if node.proxyAddr, err = node.proxy.Listen(); err != nil {
		return nil, errors.Join(err, node.close())
	}
	node.directAddr = s.addr()
	node.addr = node.directAddr
	if o.proxied {
		node.addr = node.proxyAddr
	}
	if o.unixSocket {
		node.socket = s.socket()
	}
	if o.tls != nil {
		node.tlsAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort))
	}
	return node, nil
}

// realServer is a server process that can be started again and again on the
// same port.
type realServer struct {
	name, bin, dir string
	cert, key      string // Files, with TLS.
	opts           serverOptions
	port, tlsPort  int // Set once, before the node is handed out.

	mu    sync.Mutex // Held while the process is started or ended.
	proc  *Process
	taken []int // The ports, until close.
}

func (s *realServer) addr() string    { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }
func (s *realServer) socket() string  { return filepath.Join(s.dir, "sock") }
func (s *realServer) logPath() string { return filepath.Join(s.dir, "log") }
func (s *realServer) dataDir() string { return filepath.Join(s.dir, "data") }

func (s *realServer) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Kill()
	return nil
}

func (s *realServer) restart(keepData bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keepData && !s.opts.appendOnly && !s.opts.snapshots && s.opts.config == "" {
		return fmt.Errorf("testcluster: %s can't keep its data, as it was started without WithAppendOnly or WithSnapshots", s.name)
	}
	s.proc.Kill()
	if !keepData {
		if err := os.RemoveAll(s.dataDir()); err != nil {
			return err
		}
	}
	return s.startAgain()
}

// kept is the folder for a copy of the data.
func (s *realServer) kept() string { return filepath.Join(s.dir, "kept") }

// keep copies the data while the server goes on. A log that is cut off in the middle of a command is as good as one that
// ends before it. If the server begins another file meanwhile, the copy is made again.
func (s *realServer) keep() error {
	names := func() string {
		files, _ := filepath.Glob(filepath.Join(s.dataDir(), "*", "*"))
		return strings.Join(files, " ")
	}
	for {
		before := names()
		if err := os.RemoveAll(s.kept()); err != nil {
			return err
		}
		err := os.CopyFS(s.kept(), os.DirFS(s.dataDir()))
		if names() == before {
			return s.wrap(err)
		}
	}
}

// restartKept starts the server with the copy.
func (s *realServer) restartKept() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Kill()
	if err := os.RemoveAll(s.dataDir()); err != nil {
		return err
	}
	if err := os.Rename(s.kept(), s.dataDir()); err != nil {
		return err
	}
	return s.startAgain()
}

func (s *realServer) hang() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrap(s.proc.freeze())
}

func (s *realServer) resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrap(s.proc.thaw())
}

func (s *realServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
	}
	ports.put(s.taken...)
	s.taken = nil
	return os.RemoveAll(s.dir)
}

func (s *realServer) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("testcluster: %s: %w", s.name, err)
	}
	return nil
}

// do runs a command on a connection of its own past the proxy.
func (s *realServer) do(cmd string, args ...any) (any, error) {
	conn, err := redis.Dial("tcp", s.addr(), directTimeouts()...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.Do(cmd, args...)
}

// ErrNoServer is returned when this machine has no server to run.
var ErrNoServer = errors.New("testcluster: no redis-server or valkey-server in PATH: " +
	"install redis (or valkey), or set REDIS_SERVER to the path of a server binary")

// ServerBinary returns the server that [StartServers] runs: the environment
// variable REDIS_SERVER, else redis-server, else valkey-server from PATH. The
// error wraps [ErrNoServer] if there is none.
func ServerBinary() (string, error) {
	if name := os.Getenv("REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w (REDIS_SERVER is set to what can't be run: %w)", ErrNoServer, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// ServerOption changes how [StartServers] starts its servers.
type ServerOption func(*serverOptions)

type serverOptions struct {
	proxied    bool
	appendOnly bool
	snapshots  bool
	unixSocket bool
	tls        *Certificate
	config     string
	args       []string
	env        []string
}

// WithProxy makes clients go through each node's proxy: [Node.Addr] is then
// [Node.ProxyAddr].
func WithProxy() ServerOption {
	return func(o *serverOptions) { o.proxied = true }
}

// WithAppendOnly turns on the append-only file, without fsync: what was answered was
// written, so nothing is lost when only the process is killed. Without it the servers
// keep nothing on disk.
func WithAppendOnly() ServerOption {
	return func(o *serverOptions) { o.appendOnly = true }
}

// WithSnapshots has the servers keep what they are told to SAVE, and nothing later.
func WithSnapshots() ServerOption {
	return func(o *serverOptions) { o.snapshots = true }
}

// WithUnixSocket makes the servers listen on a Unix socket too, see
// [Node.Socket].
func WithUnixSocket() ServerOption {
	return func(o *serverOptions) { o.unixSocket = true }
}

// WithTLS makes the servers listen on a port with TLS too, see [Node.TLSAddr]. They ask clients for no
// certificate, unless an argument says otherwise.
func WithTLS(c *Certificate) ServerOption {
	return func(o *serverOptions) { o.tls = c }
}

// WithConfig starts the servers with a configuration file. Only where they listen, and where their data is,
// is as without it. They are taken to keep their data, which is up to the file.
func WithConfig(file string) ServerOption {
	return func(o *serverOptions) { o.config = file }
}

// WithArgs adds arguments to the server's command line, after all others, such
// as "--maxmemory", "1mb". A password set so would also keep this package from
// reading keys.
func WithArgs(args ...string) ServerOption {
	return func(o *serverOptions) { o.args = append(o.args, args...) }
}

// WithEnv adds variables, each as name=value, to the server's environment.
func WithEnv(vars ...string) ServerOption {
	return func(o *serverOptions) { o.env = append(o.env, vars...) }
}
