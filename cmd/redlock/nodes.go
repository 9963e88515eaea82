package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
)

// nodeList returns the nodes that the flags and the environment name, with what it takes to log
// in.
func (g *globalFlags) nodeList(more ...redis.DialOption) ([]redlock.Node, error) {
	if g.nodeTimeout <= 0 {
		return nil, usagef("--node-timeout %v: must be positive", g.nodeTimeout)
	}
	if g.connectTimeout <= 0 {
		return nil, usagef("--connect-timeout %v: must be positive", g.connectTimeout)
	}
	addrs, err := g.addresses()
	if err != nil {
		return nil, err
	}
	login, err := g.login()
	if err != nil {
		return nil, err
	}
	secure, err := g.tlsOptions()
	if err != nil {
		return nil, err
	}
	if err := g.refuseCleartext(addrs); err != nil {
		return nil, err
	}
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		opts := append(slices.Clone(login), more...)
		if !strings.HasPrefix(addr, "unix://") {
			opts = append(opts, secure...)
		}
		nodes[i] = redlock.NewNode(addr, opts...)
	}
	return nodes, nil
}

// addresses are those of the nodes.
func (g *globalFlags) addresses() ([]string, error) {
	switch {
	case g.nodes != "" && g.nodesFile != "" && !g.nodesFromEnv:
		return nil, usagef("--nodes and --nodes-file: give one of them")
	case g.nodes != "":
		return g.listed()
	}
	var addrs []string
	if g.nodesFile != "" {
		text, err := os.ReadFile(g.nodesFile)
		if err != nil {
			return nil, usagef("--nodes-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			addrs = append(addrs, strings.Fields(line)...)
		}
	}
	if len(addrs) == 0 {
		return nil, usagef("no nodes: give --nodes, --nodes-file or REDLOCK_NODES")
	}
	return addrs, nil
}

// listed are the addresses of --nodes or REDLOCK_NODES, with commas or white space between them. Of the shell's
// "$A,$B,$C" an unset variable leaves an empty entry: with the others alone, the quorum would be one of fewer
// nodes, and this client would lock beside those that have them all.
func (g *globalFlags) listed() (addrs []string, err error) {
	source, entries := "--nodes", strings.Split(g.nodes, ",")
	if g.nodesFromEnv {
		source = "REDLOCK_NODES"
	}
	for i, entry := range entries {
		fields := strings.Fields(entry)
		if len(fields) == 0 {
			return nil, usagef("%s: entry %d of %d is empty: is a variable unset?", source, i+1, len(entries))
		}
		addrs = append(addrs, fields...)
	}
	if g.nodesFromEnv {
		return addrs, nil
	}
	return addrs, refuseCredentials(addrs)
}

// refuseCredentials is about addresses of the command line, which everybody on the machine can
// read. It does not show them.
func refuseCredentials(addrs []string) error {
	for i, addr := range addrs {
		u, err := url.Parse(addr)
		isURL := strings.Contains(addr, "://") && err == nil
		if isURL && u.User != nil || !isURL && strings.Contains(addr, "@") {
			return usagef("--nodes: node %d of %d has credentials in its address, which the list of processes shows: "+
				"put the addresses into REDLOCK_NODES or --nodes-file, or give --user and --password-file", i+1, len(addrs))
		}
	}
	return nil
}

// refuseCleartext is about options of TLS without TLS. Whoever gives one of them takes the connections
// for encrypted, and the password would go over the network as it is.
func (g *globalFlags) refuseCleartext(addrs []string) error {
	given := ""
	switch {
	case g.tls:
		return nil
	case g.tlsCA != "":
		given = "tls-ca"
	case g.tlsCert != "":
		given = "tls-cert"
	case g.tlsServerName != "":
		given = "tls-server-name"
	case g.tlsInsecure:
		given = "tls-insecure"
	default:
		return nil
	}
	for _, addr := range addrs {
		if scheme, _, _ := strings.Cut(addr, "://"); !slices.Contains([]string{"rediss", "valkeys", "unix"}, scheme) {
			return usagef("--%s (or %s) is given, but the node %s is without TLS: give --tls, or addresses with rediss://",
				given, envName(given), redlock.NewNode(addr).Name)
		}
	}
	return nil
}

// login is what the flags and the environment say of user and password. What an address says
// wins over it.
func (g *globalFlags) login() ([]redis.DialOption, error) {
	password := os.Getenv("REDLOCK_PASSWORD")
	if g.passwordFile != "" {
		text, err := os.ReadFile(g.passwordFile)
		if err != nil {
			return nil, usagef("--password-file: %w", err)
		}
		if password = firstLine(text); password == "" {
			return nil, usagef("--password-file: the first line of %s is empty", g.passwordFile)
		}
	}
	if password == "" {
		if g.user != "" {
			return nil, usagef("--user without a password: give --password-file or REDLOCK_PASSWORD")
		}
		return nil, nil
	}
	opts := []redis.DialOption{redis.DialPassword(password)}
	if g.user != "" {
		opts = append(opts, redis.DialUsername(g.user))
	}
	return opts, nil
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r")
}

func (g *globalFlags) tlsOptions() ([]redis.DialOption, error) {
	if (g.tlsCert == "") != (g.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key: give both or none")
	}
	config := &tls.Config{ServerName: g.tlsServerName, InsecureSkipVerify: g.tlsInsecure} //nolint:gosec // As asked.
	if g.tlsCA != "" {
		pem, err := os.ReadFile(g.tlsCA)
		if err != nil {
			return nil, usagef("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--tls-ca: no certificate in %s", g.tlsCA)
		}
	}
	if g.tlsCert != "" {
		cert, err := tls.LoadX509KeyPair(g.tlsCert, g.tlsKey)
		if err != nil {
			return nil, usagef("--tls-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	opts := []redis.DialOption{redis.DialTLSConfig(config)} // Of use for rediss:// alone, too.
	if g.tls {
		opts = append(opts, redis.DialUseTLS(true))
	}
	if g.tlsInsecure {
		opts = append(opts, redis.DialTLSSkipVerify(true))
	}
	return opts, nil
}

// open returns the nodes and a Redlock over them.
func (g *globalFlags) open(more ...redlock.Option) (*redlock.Redlock, []redlock.Node, error) {
	nodes, err := g.nodeList()
	if err != nil {
		return nil, nil, err
	}
	r, err := redlock.New(nodes, append(g.options(), more...)...)
	if err != nil {
		return nil, nil, asUsage(err)
	}
	return r, nodes, nil
}

// options are those of the flags.
func (g *globalFlags) options() []redlock.Option {
	opts := []redlock.Option{
		redlock.WithPrefix(g.prefix), redlock.WithSetName(g.setName),
		redlock.WithNodeTimeout(g.nodeTimeout),
		redlock.WithConnectTimeout(g.connectTimeout),
		redlock.WithoutLog(), // The tool says itself what is wrong.
	}
	if g.quarantine != 0 {
		opts = append(opts, redlock.WithQuarantine(g.quarantine))
	}
	return opts
}

// asUsage makes a usage error of what the library says of an argument.
func asUsage(err error) error { return usagef("%s", messageOf(err)) }

// invalid reports whether the library has refused an argument, before any I/O: there are no
// votes, and nothing has ended the call.
func invalid(err error) bool {
	known := []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost, redlock.ErrClosed, errWithin}
	return !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
}
