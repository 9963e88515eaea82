package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, bad := range []string{
		"-goroutines 0", "-node-counts 0", "-goroutines x", "-parts other", "-rounds 0", "-time 0s",
		"-contest-time 0s", "-warm-up -1s", "-smoke -write x", "-ttl 1ms", "argument", "-unknown",
	} {
		_, err := parse(strings.Fields(bad), io.Discard)
		require.Error(t, err, bad)
	}
	for args, want := range map[string]string{
		"":                                "make bench",
		"-write ../docs/generated":        "make bench",
		"-parts line -write=x --rounds=2": `make bench BENCHFLAGS="-parts line -rounds 2"`,
	} {
		s, err := parse(strings.Fields(args), io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, s.command)
	}
	s, err := parse(strings.Fields("-smoke -rounds 7"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, []any{true, 7, 1, len(parts)}, []any{s.smoke, s.rounds, s.blocks, len(s.parts)})
}

func TestFigures(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 3: {9, 1, 3}, 2: {1, 3}} {
		require.InDelta(t, want, median(values), 0)
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		require.Equal(t, want, percentile(hundred, p))
	}
	require.Equal(t, time.Duration(1), percentile(hundred[:1], 99))
	require.Equal(t, []float64{2}, ratios([]float64{1, 6}, []float64{0, 3}))
}
