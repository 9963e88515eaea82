// Package redlockrueidis makes redlock's nodes of rueidis's options, for services that have their
// servers, TLS and credentials there already:
//
//	option := rueidis.ClientOption{InitAddress: []string{"10.0.0.1:6379"}, TLSConfig: config, AuthCredentialsFn: token}
//	…
//	r, err := redlock.New([]redlock.Node{redlockrueidis.Node(a), redlockrueidis.Node(b), redlockrueidis.Node(c)})
package redlockrueidis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/dial"
)

// Node returns a node that connects as a client of rueidis.NewClient would: to the one address of
// InitAddress, by DialCtxFn, DialFn or Dialer, with its TLS configuration, credentials, database and
// client name. AuthCredentialsFn is asked for each new connection. The node is named
// host:port[/db]. Node does no I/O.
//
// The connections are redlock's own: they speak RESP2, and no other option applies to them.
//
// The option must lead to one master, always the same. For several addresses, ReplicaOnly, a Sentinel
// or what else follows a failover, Node returns a node that redlock.New refuses with an error which
// says what to do.
func Node(option rueidis.ClientOption) redlock.Node {
	const want = "make a node of an option for each of several independent masters, with its address alone"
	name := strings.Join(option.InitAddress, ",")
	switch {
	case option.Sentinel.MasterSet != "":
		return dial.Refused(name, "a Sentinel goes on with a replica, which may lack the latest locks; %s", want)
	case len(option.InitAddress) != 1:
		return dial.Refused(fmt.Sprintf("InitAddress %q", option.InitAddress), "it has %d addresses; %s", len(option.InitAddress), want)
	case option.ReplicaOnly, option.Standalone.EnableRedirect:
		return dial.Refused(name, "ReplicaOnly and EnableRedirect lead to a replica, which may lack the latest locks; %s", want)
	}
	return dial.Server{
		Address: name, Database: option.SelectDB, Client: option.ClientName,
		Dial: func(ctx context.Context) (net.Conn, error) { return connect(ctx, name, &option) },
		Credentials: func(_ context.Context, server net.Addr) (user, password string, err error) {
			if option.AuthCredentialsFn == nil {
				return option.Username, option.Password, nil
			}
			c, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: server})
			return c.Username, c.Password, err
		},
	}.Node()
}

func connect(ctx context.Context, address string, o *rueidis.ClientOption) (net.Conn, error) {
	switch {
	case o.DialCtxFn != nil:
		return o.DialCtxFn(ctx, address, &o.Dialer, o.TLSConfig)
	case o.DialFn != nil: // Deprecated, but rueidis still asks it.
		return o.DialFn(address, &o.Dialer, o.TLSConfig)
	case o.TLSConfig != nil:
		return (&tls.Dialer{NetDialer: &o.Dialer, Config: o.TLSConfig}).DialContext(ctx, "tcp", address)
	default:
		return o.Dialer.DialContext(ctx, "tcp", address)
	}
}
