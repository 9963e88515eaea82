package redlockcertmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
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

// A ca issues certificates, and calls a function before each.
type ca struct {
	before func(ctx context.Context) error
	key    *ecdsa.PrivateKey
}

func newCA(before func(ctx context.Context) error) *ca {
	return &ca{before, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
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
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, c.key)
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

func TestTwoInstancesObtainACertificateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		var issued atomic.Int64
		ca := newCA(func(context.Context) error {
			issued.Add(1)
			time.Sleep(5 * ttl) // Longer than the lock's ttl.
			return nil
		})
		var serials [2]string
		var both sync.WaitGroup
		for i, s := range []*Storage{one, two} {
			config, stop := newInstance(s, ca)
			defer stop()
			both.Go(func() {
				if err := config.ManageSync(t.Context(), []string{domain}); assert.NoError(t, err) {
					serials[i] = serial(config)
				}
			})
		}
		both.Wait()
		require.EqualValues(t, 1, issued.Load())
		require.Equal(t, serials[0], serials[1])

		// The same when it is renewed.
		for i, s := range []*Storage{one, two} {
			config, stop := newInstance(s, ca)
			defer stop()
			both.Go(func() {
				// A renewal that is not forced looks first whether somebody else was faster.
				assert.NoError(t, config.RenewCertSync(t.Context(), domain, i == 0))
			})
		}
		both.Wait()
		require.EqualValues(t, 2, issued.Load())
		cluster.AssertFree()
	})
}

// It is the lock that does it: an instance whose lock is lost while it works does not keep the other out. When
// it tries again, it takes the lock anew and finds the other's certificate.
func TestAnInstanceThatHasLostItsLockFindsTheOthersCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, one, two := newStorages(t)
		var asked, obtained atomic.Int64
		slow, stop := newInstance(one, newCA(func(context.Context) error {
			asked.Add(1)
			cluster.Lose(one.names[name].lock)
			time.Sleep(ttl)
			return errors.New("try again")
		}))
		defer stop()
		fast, stop := newInstance(two, newCA(func(context.Context) error {
			obtained.Add(1)
			return nil
		}))
		defer stop()
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, slow.ObtainCertAsync(t.Context(), domain)) })
		time.Sleep(time.Second)
		both.Go(func() { assert.NoError(t, fast.ObtainCertAsync(t.Context(), domain)) })
		both.Wait()
		require.EqualValues(t, 1, asked.Load())
		require.EqualValues(t, 1, obtained.Load())
		require.Equal(t, serial(slow), serial(fast))
		cluster.AssertFree()
	})
}
