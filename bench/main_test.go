package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, bad := range []string{
		"-goroutines 0", "-node-counts 0", "-only redlock,other", "-goroutines x", "-parts other", "-rounds 0", "-time 0s",
		"-contest-time 0s", "-callers 0", "-warm-up -1s", "-smoke -write x", "-ttl 1ms", "argument", "-unknown",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	for args, want := range map[string]string{
		"":                                "make bench",
		"-write ../docs/generated":        "make bench",
		"-parts line -write=x --rounds=2": `make bench BENCHFLAGS="-parts line -rounds 2"`,
	} {
		if s, err := parse(strings.Fields(args), io.Discard); err != nil || s.command != want {
			t.Errorf("%s: %s, %v, want %s", args, s.command, err, want)
		}
	}
	s, err := parse(strings.Fields("-smoke -rounds 7"), io.Discard)
	if err != nil || !s.smoke || s.rounds != 7 || s.blocks != 1 || len(s.parts) != len(parts) {
		t.Errorf("-smoke: %+v, %v", s, err)
	}
}

func TestFigures(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 3: {9, 1, 3}, 2: {1, 3}} {
		if got := median(values); got != want {
			t.Errorf("median(%v) = %v, want %v", values, got, want)
		}
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("percentile(%d) = %v, want %v", p, int64(got), int64(want))
		}
	}
	if got := percentile(hundred[:1], 99); got != 1 {
		t.Errorf("percentile of one value = %v, want it", int64(got))
	}
	if got := ratios([]float64{1, 6}, []float64{0, 3}); len(got) != 1 || got[0] != 2 {
		t.Errorf("ratios = %v", got)
	}
}
