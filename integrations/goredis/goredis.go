// Package redlockgoredis makes redlock's nodes of go-redis clients, for services that have their
// servers, TLS and credentials in go-redis's options already:
//
//	a := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379", TLSConfig: config, CredentialsProviderContext: token})
//	…
//	r, err := redlock.New([]redlock.Node{redlockgoredis.Node(a), redlockgoredis.Node(b), redlockgoredis.Node(c)})
package redlockgoredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/dial"
)

// failoverAddr is what go-redis gives a failover client for an address.
const failoverAddr = "FailoverClient"

// Node returns a node that connects as a client of redis.NewClient would: by its dialer, to its
// address, with its TLS configuration, credentials, database and client name. A credentials
// provider is asked for each new connection. The node is named host:port[/db], or by the path of
// its socket. Node does no I/O.
//
// The connections are redlock's own, not of the client's pool: closing the client does not end them,
// and its hooks, OnConnect, timeouts and retries do not apply. They speak RESP2.
//
// A client must lead to one master, always the same. Given a Cluster client, a Ring, a failover
// client or nil, Node returns a node that redlock.New refuses with an error which says what to do.
func Node(client redis.UniversalClient) redlock.Node {
	c, ok := client.(*redis.Client)
	switch {
	case client == nil, ok && c == nil:
		return refused("nil", "there is no client")
	case !ok:
		return refused(fmt.Sprintf("%T", client), "it may lead to several servers, or to others in time")
	case c.Options().Addr == failoverAddr:
		return refused(failoverAddr, "it goes on with a replica, which may lack the latest locks")
	}
	return node(c.Options())
}

// FailoverNode returns a node that connects as a client of redis.NewFailoverClient does: to the master that the Sentinels
// name. Node refuses such a client, as the node is a replica after a failover, which may lack the latest locks, so that two
// may hold one. It is here for programs that have one server behind Sentinels, and know that. Other clients are as with Node.
func FailoverNode(client *redis.Client) redlock.Node {
	if client == nil || client.Options().Addr != failoverAddr {
		return Node(client)
	}
	return node(client.Options())
}

// refused returns a node that New refuses.
func refused(client, why string) redlock.Node {
	return dial.Refused(client, "%s: make a node of a redis.NewClient for each of several independent masters", why)
}

func node(o *redis.Options) redlock.Node {
	return dial.Server{
		Address: o.Addr, Database: o.DB, Client: o.ClientName,
		Dial: func(ctx context.Context) (net.Conn, error) { return o.Dialer(ctx, o.Network, o.Addr) },
		Credentials: func(ctx context.Context, _ net.Addr) (user, password string, err error) {
			if user, password, err = credentials(ctx, o); password == "" {
				user = "" // Without a password, go-redis does not log in.
			}
			return user, password, err
		},
	}.Node()
}

// credentials looks in the same order as go-redis.
func credentials(ctx context.Context, o *redis.Options) (user, password string, err error) {
	switch {
	case o.StreamingCredentialsProvider != nil:
		now, unsubscribe, err := o.StreamingCredentialsProvider.Subscribe(&deaf{})
		if err != nil {
			return "", "", err
		}
		_ = unsubscribe() // What is left of it is the provider's.
		user, password = now.BasicAuth()
		return user, password, nil
	case o.CredentialsProviderContext != nil:
		return o.CredentialsProviderContext(ctx)
	case o.CredentialsProvider != nil:
		user, password = o.CredentialsProvider()
		return user, password, nil
	default:
		return o.Username, o.Password, nil
	}
}

// A deaf listener hears of no new credentials: when the old ones expire, the server ends the
// connection, and the next one asks for the new ones. It has a size, so that each is another one.
type deaf struct{ _ byte }

func (*deaf) OnNext(auth.Credentials) {}
func (*deaf) OnError(error)           {}
