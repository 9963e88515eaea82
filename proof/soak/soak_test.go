package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the client's process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "client" {
		exit(serve(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func TestSoakSamplesEverything(t *testing.T) {
	r, err := soak(t.Context(), 6*time.Second, 100*time.Millisecond, 1)
	require.NoError(t, err)
	require.Positive(t, r.Locks)
	require.Positive(t, r.Faults)
	require.Len(t, r.Verdicts, len(figures))
	folder := t.TempDir()
	require.NoError(t, write(folder, r))
	for _, f := range figures {
		require.FileExists(t, filepath.Join(folder, f.name+".svg"))
		require.FileExists(t, filepath.Join(folder, f.name+"-dark.svg"))
	}
}

// Each figure that grows must be seen, by itself, and noise must not.
func TestJudgeSeesWhatGrows(t *testing.T) {
	samples := func(grown string) []sample {
		all := make([]sample, 100)
		for i := range all {
			noise, growth := float64(i%3), float64(i)
			v := func(name string, base float64) float64 {
				if name == grown {
					return base + noise/10 + growth
				}
				return base + noise/10
			}
			all[i] = sample{
				own:         own{Resident: v("memory", 20), Heap: v("heap", 2), Goroutines: v("goroutines", 40)},
				Connections: v("connections", 6), Keys: v("server-keys", 50) + 2*(v("server-keys", 50)-50), ServerMem: v("server-memory", 4),
			}
		}
		return all
	}
	_, flat := judge(samples(""))
	require.True(t, flat)
	for _, f := range figures {
		verdicts, flat := judge(samples(f.name))
		require.False(t, flat, f.name)
		for _, v := range verdicts {
			require.Equal(t, v.Figure != f.name, v.Flat, v.String())
		}
	}
}

// Nothing that was looked at is nothing that was shown.
func TestJudgeWithoutFiguresIsNotFlat(t *testing.T) {
	_, flat := judge(make([]sample, 100))
	require.False(t, flat)
	_, flat = judge(nil)
	require.False(t, flat)
}
