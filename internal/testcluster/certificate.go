package testcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A Certificate is one that signs itself, with its key.
type Certificate struct {
	tls.Certificate
	Trusted *x509.CertPool // It alone.
}

// NewCertificate makes a certificate for hosts with these names, or without any for the loopback address.
// It is good for an hour, for servers, for clients, and as an authority.
func NewCertificate(names ...string) (*Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &Certificate{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, x509.NewCertPool()}
	c.Trusted.AddCert(leaf)
	return c, nil
}

// Server is the configuration of a server that has the certificate.
func (c *Certificate) Server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12}
}

// Client is the configuration of a client that trusts the certificate, and has it, too.
func (c *Certificate) Client() *tls.Config {
	return &tls.Config{RootCAs: c.Trusted, Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12}
}

// Write writes the certificate and its key into two files (PEM) in a folder, and returns where they are.
func (c *Certificate) Write(dir string) (certificate, key string, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return "", "", err
	}
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return certificate, key, errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Leaf.Raw}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
