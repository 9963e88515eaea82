package redlockcertmagic

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const domain = "example.com"

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
