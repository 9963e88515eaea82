package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
)

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
