package testcluster

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
