package redlockcertmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// A ca issues certificates, and calls a function before each.
type ca struct {
	before func(ctx context.Context) error

	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newCA(before func(ctx context.Context) error) *ca {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &ca{before: before, key: key, cert: must(x509.ParseCertificate(der))}
}

func (c *ca) IssuerKey() string { return "test" }

func (c *ca) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := c.before(ctx); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62))), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, request.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// newInstance returns a certmagic of its own, with its own cache, as each process has it.
func newInstance(storage certmagic.Storage, issuer certmagic.Issuer) (config *certmagic.Config, stop func()) {
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop(),
		OCSP: certmagic.OCSPConfig{DisableStapling: true}, DisableARI: true,
	})
	return config, cache.Stop
}

// serial returns the number of the certificate that an instance has.
func serial(config *certmagic.Config) string {
	cert := must(config.CacheManagedCertificate(context.Background(), domain))
	return must(x509.ParseCertificate(cert.Certificate.Certificate[0])).SerialNumber.String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
