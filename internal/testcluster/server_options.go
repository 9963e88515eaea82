package testcluster

// ServerOption changes how [StartServers] starts its servers.
type ServerOption func(*serverOptions)

type serverOptions struct {
	proxied    bool
	appendOnly bool
	unixSocket bool
	args       []string
}

// WithProxy makes clients go through each node's proxy: [Node.Addr] is then
// [Node.ProxyAddr].
func WithProxy() ServerOption {
	return func(o *serverOptions) { o.proxied = true }
}

// WithAppendOnly turns on the append-only file with the server's default of
// one fsync a second, which loses nothing when only the process is killed.
// Without it the servers keep nothing on disk.
func WithAppendOnly() ServerOption {
	return func(o *serverOptions) { o.appendOnly = true }
}

// WithUnixSocket makes the servers listen on a Unix socket too, see
// [Node.Socket].
func WithUnixSocket() ServerOption {
	return func(o *serverOptions) { o.unixSocket = true }
}

// WithArgs adds arguments to the server's command line, after all others, such
// as "--maxmemory", "1mb". A password set so would also keep this package from
// reading keys.
func WithArgs(args ...string) ServerOption {
	return func(o *serverOptions) { o.args = append(o.args, args...) }
}
