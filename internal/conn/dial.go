package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	_ "github.com/seed6c881748/redlock/internal/redigo"
)

// maxDial bounds steps that GetContext's context does not bound.
const maxDial = 2 * time.Second

// A Dialer is a Pool that makes a new connection each time.
type Dialer struct {
	Dial             func(ctx context.Context, network, address string) (net.Conn, error)
	Network, Address string
	Options          []redis.DialOption
	Login            [][]any // commands that are sent on a new connection ahead of all else
	Err              error   // why there is nothing to dial to, such as a malformed address; nothing else is set then
}

// NewDialer returns a Dialer for an address and the name of what is there, never with credentials. What the address
// says wins over opts. Of a malformed address the name is as much as cannot be a password.
func NewDialer(addr string, opts ...redis.DialOption) (name string, d *Dialer) {
	t, err := parseAddress(addr)
	if err != nil {
		name = withoutCredentials(addr)
		return name, &Dialer{Err: fmt.Errorf("malformed address %q: %w", name, err)}
	}
	return t.name, &Dialer{
		Dial:    (&net.Dialer{Timeout: maxDial}).DialContext,
		Network: t.network, Address: t.address, Options: append(slices.Clone(opts), t.options...), Login: t.login,
	}
}

// Format prints the address without credentials, whatever the verb: Login has passwords.
func (d *Dialer) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "dialer of %s %s", d.Network, d.Address)
}

// GetContext dials and logs in. It is for a user's pool around this one, which may use or wrap the connection before it
// hands it on.
func (d *Dialer) GetContext(ctx context.Context) (redis.Conn, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	for _, command := range d.Login {
		if _, err := c.DoContext(ctx, command[0].(string), command[1:]...); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	return c, nil
}

// getLoggingIn dials. The login goes out with the first commands, and its answers are read before theirs. That saves
// round trips.
func (d *Dialer) getLoggingIn(ctx context.Context) (redis.Conn, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.login = d.Login
	return c, nil
}

// handshakeLimit returns how long a TLS handshake may take, which redigo does not bound by ctx. It is a bit less than
// what is left of ctx, so that the error names the handshake.
func handshakeLimit(ctx context.Context) time.Duration {
	if _, limited := ctx.Deadline(); limited {
		return min(maxDial, TimeLeft(ctx)*9/10+1)
	}
	return maxDial
}

// dial makes a connection that has not logged in. The options may bring their own way to dial.
func (d *Dialer) dial(ctx context.Context) (*socketConn, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	var s *socket
	options := append([]redis.DialOption{
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := d.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			s = newSocket(c)
			return s, nil
		}),
		redis.DialTLSHandshakeTimeout(handshakeLimit(ctx)),
	}, d.Options...)
	c, err := redis.DialContext(ctx, d.Network, d.Address, options...)
	if err != nil {
		return nil, likely(err, s)
	}
	return &socketConn{fullConn: c.(fullConn), socket: s}, nil
}

// Certificate returns, of the certificates that a server shows, the one that expires first. It makes a connection of
// its own for that. It returns nil if the wire is without TLS, or not a dialer's: redigo does not pass on the
// certificates that it was shown.
func (s *Source) Certificate(ctx context.Context, w *Wire) *x509.Certificate {
	d, ok := s.pool.(*Dialer)
	if !ok || w.socket == nil || !w.socket.isSecured() {
		return nil
	}
	c, err := d.Dial(ctx, d.Network, d.Address)
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close() }()
	name, _, _ := net.SplitHostPort(d.Address)
	//nolint:gosec // Nothing is sent, and expired certificates matter as well.
	look := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	_ = look.HandshakeContext(ctx) // It fails if the server wants a certificate from the client.
	shown := look.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil
	}
	return slices.MinFunc(shown, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}
