package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, bad := range []string{
		"-goroutines 0", "-node-counts 0", "-held 0", "-only redlock,other", "-goroutines x", "-parts other", "-only other", "-rounds 0", "-time 0s", "-contention-time 0s", "-waiters 0", "-trials 0", "-callers 0", "-overload-time 0s", "-warm-up -1s", "-smoke -write x", "-contests (", "-ttl 1ms", "argument", "-unknown",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	s, err := parse(nil, io.Discard)
	if err != nil || len(s.goroutines) != 5 || len(s.parts) != len(parts) {
		t.Errorf("without flags: %+v, %v", s, err)
	}
	if s, err = parse(strings.Fields("-smoke -rounds 7"), io.Discard); err != nil || !s.smoke || s.rounds != 7 || s.blocks != 1 {
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
	if got := ratio(1, 0); got != "-" {
		t.Errorf("ratio(1, 0) = %s", got)
	}
	if got := ratios([]float64{1, 6}, []float64{0, 3}); len(got) != 1 || got[0] != 2 {
		t.Errorf("ratios = %v", got)
	}
}
