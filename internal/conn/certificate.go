package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
)

// Certificate returns the one that ends first of those that a server shows, on a connection of its own. It returns nil if
// the wire is without TLS, or not a dialer's: redigo keeps what it was shown to itself.
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
	//nolint:gosec // Nothing is sent; and also one that has ended is looked at.
	look := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	_ = look.HandshakeContext(ctx) // It fails where the server wants a certificate of the client's.
	shown := look.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil
	}
	return slices.MinFunc(shown, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}
