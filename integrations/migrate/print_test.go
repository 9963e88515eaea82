package redlockmigrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// A secretive driver has a field that nobody must see.
type secretive struct {
	database.Driver

	Password string
}

func (secretive) Lock() error   { return errors.New("its own lock was asked for") }
func (secretive) Unlock() error { return nil }

func TestADriverPrintsNoSecretsWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(secretive{Password: "hunter2"}, redlocktest.New(t, 1).Redlock, name, time.Minute)
		const want = "redlockmigrate.secretive with the lock of redlock"
		var both sync.WaitGroup
		both.Go(func() {
			for range 50 {
				assert.NoError(t, d.Lock())
				assert.NoError(t, d.Unlock())
			}
		})
		defer both.Wait()
		for range 50 {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
				require.Equal(t, want, fmt.Sprintf(verb, d))
				require.NotContains(t, fmt.Sprintf(verb, []database.Driver{d}), "hunter2")
			}
			text, err := json.Marshal(d)
			require.NoError(t, err)
			require.Equal(t, `"`+want+`"`, string(text))
		}
	})
}
