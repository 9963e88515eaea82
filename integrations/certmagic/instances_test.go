package redlockcertmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const domain = "example.com"

// A ca issues certificates, each in five times the lock's ttl.
type ca struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
}

func (c *ca) IssuerKey() string { return "test" }

func (c *ca) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	c.issued.Add(1)
	time.Sleep(5 * ttl)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(c.issued.Load()), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, c.key)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTwoInstancesObtainACertificateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		ca := &ca{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
		var both sync.WaitGroup
		for i, s := range []*Storage{one, two} {
			config, stop := newInstance(s, ca)
			defer stop()
			both.Go(func() {
				if assert.NoError(t, config.ManageSync(t.Context(), []string{domain})) {
					assert.EqualValues(t, 1, ca.issued.Load())
					time.Sleep(10 * ttl) // Then both have it.
					// The same when it is renewed: a renewal that is not forced looks first whether somebody else was faster.
					assert.NoError(t, config.RenewCertSync(t.Context(), domain, i == 0))
				}
			})
		}
		both.Wait()
		require.EqualValues(t, 2, ca.issued.Load())
		cluster.AssertFree()
	})
}
