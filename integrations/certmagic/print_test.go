package redlockcertmagic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

const secret = "hunter2"

// A database is a storage as there are for Redis and SQL, which prints itself without its password.
type database struct {
	certmagic.Storage

	Host, Password string
}

func (d *database) String() string { return "database " + d.Host }

// A plain one has nothing to print itself by.
type plain struct {
	certmagic.Storage

	Password string
}

// printed is a value as programs log it.
func printed(t *testing.T, v any) []string {
	t.Helper()
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, []any{v}))
	}
	text, err := json.Marshal(map[string]any{"storage": v})
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "storage", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "storage", v)
	logger := newLogger(&log)
	logger.Info("zap", zap.Any("storage", v), zap.Reflect("fields", v))
	logger.Sugar().Infow("zap", "storage", v)
	return append(texts, string(text), log.String())
}

func newLogger(log *bytes.Buffer) *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(log), zap.DebugLevel))
}

func TestAStoragePrintsNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		files := &certmagic.FileStorage{Path: t.TempDir()}
		one := New(&database{files, "db1", secret}, cluster.Redlock, ttl)
		two := New(plain{files, secret}, cluster.Redlock, ttl)
		for _, s := range []*Storage{one, two} {
			for _, text := range printed(t, s) {
				require.NotContains(t, text, secret)
			}
			var log bytes.Buffer
			require.NoError(t, certmagic.CleanStorage(t.Context(), s, certmagic.CleanStorageOptions{Logger: newLogger(&log)}))
			require.Contains(t, log.String(), "with locks of redlock")
			require.NotContains(t, log.String(), secret)
		}
		require.Equal(t, "database db1 with locks of redlock", fmt.Sprint(one))
		require.Equal(t, "redlockcertmagic.plain with locks of redlock", fmt.Sprint(two))
		require.Contains(t, printed(t, one)[len(printed(t, one))-1], `"storage":"database db1 with locks of redlock"`)
	})
}

// Without a Format, fmt would iterate over a map that Lock writes, which ends the program.
func TestAStorageIsPrintedWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&certmagic.FileStorage{Path: t.TempDir()}, redlocktest.New(t, 1).Redlock, time.Minute)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for j := range 25 {
					name := fmt.Sprint(i, "/", j)
					if assert.NoError(t, s.Lock(t.Context(), name)) {
						assert.NoError(t, s.Unlock(t.Context(), name))
					}
				}
			})
			all.Go(func() {
				for range 25 {
					_ = printed(t, s)
				}
			})
		}
		all.Wait()
	})
}
