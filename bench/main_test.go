package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// TestMain has the processes that the contended parts start do what they are told.
func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		if err := carryOut(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun runs all parts as briefly as possible, to see that they work. The
// figures mean nothing.
func TestRun(t *testing.T) {
	testcluster.RunServers(t, 0) // Skips the test where there is no server.
	s, err := parse(strings.Fields("-rounds 1 -time 50ms -goroutines 4,1 -fresh -blocks 1 -block 20 "+
		"-settle 100ms -fault-time 200ms -contend-time 200ms -contention-time 100ms -wait-time 200ms -waiters 200 -trials 2 -callers 8,64 -overload-time 50ms -cpuprofile "+t.TempDir()+"/cpu.prof"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(s, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"goroutines: 4,", "goroutines: 1,", "redsync-failfast", "Latency of one caller", "SIGSTOP", "killed", "is 200ms late", "are reset every", "The first lock of a process", "All 5 nodes vote again",
		"Jain", "near and far", "overlapping sets", "beside polling clients", "the only one that waits", "SIGKILL", "200 calls of Lock", "Overload: callers",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{
		"-goroutines 0", "-goroutines x", "-parts other", "-only other", "-rounds 0", "-time 0s", "-contend-time 0s", "-contention-time 0s", "-waiters 0", "-trials 0", "-callers 0", "-overload-time 0s", "-ttl 1ms", "argument", "-unknown",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	s, err := parse(nil, io.Discard)
	if err != nil || len(s.goroutines) != 3 || len(s.parts) != len(parts) {
		t.Errorf("without flags: %+v, %v", s, err)
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

// A writer that fails must end the run, or a full disk would lose the figures
// without a word.
func TestPrintFails(t *testing.T) {
	want := errors.New("full")
	table := newTable("title", "column")
	table.add("cell")
	if err := table.print(failing{want}); !errors.Is(err, want) {
		t.Errorf("print = %v, want %v", err, want)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
