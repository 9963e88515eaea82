package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/test/tables"
)

// reported returns a section of a part as the parts fill it.
func reported(t *testing.T, w io.Writer) *section {
	t.Helper()
	s := &section{name: "latency", out: w}
	table := tables.New("Latency | of one caller", "client", "p50 µs", "op/s")
	table.Add("redlock", "82.5", "12345")
	table.Add("a|b", "-", "999")
	if err := s.table(table); err != nil {
		t.Fatal(err)
	}
	if err := s.note("A lock was %s.", "held"); err != nil {
		t.Fatal(err)
	}
	if err := s.plot("latency", "Percentiles", plot.Lines{
		Title: "t", Series: []plot.Line{{Name: "a", X: []float64{1}, Y: []float64{2}}},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMarkdown(t *testing.T) {
	got := reported(t, io.Discard).markdown("go1.26; " + strings.Repeat("`make bench` ", 12))
	want := strings.Join([]string{
		"<picture>",
		`  <source media="(prefers-color-scheme: dark)" srcset="plots/latency-dark.svg">`,
		`  <img src="plots/latency-light.svg" alt="Percentiles">`,
		"</picture>",
		"",
		"Latency | of one caller.",
		"",
		"| client | p50 µs | op/s |",
		"|---|---:|---:|",
		"| redlock | 82.5 | 12\u00a0345 |",
		`| a\|b | - | 999 |`,
		"",
		"A lock was held.",
		"",
		"Measured with: go1.26; `make bench` `make bench` `make bench` `make bench` `make bench` `make bench` `make bench` `make",
		"bench` `make bench` `make bench` `make bench` `make bench`",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSectionsOwe: a part without its tables or plots has failed.
func TestSectionsOwe(t *testing.T) {
	for _, tt := range []struct {
		declared []string
		change   func(*section)
		want     string
	}{
		{[]string{"latency"}, func(*section) {}, ""},
		{[]string{"latency"}, func(s *section) { s.tables = 0 }, "no table"},
		{[]string{"latency", "other"}, func(*section) {}, `plot "other": not drawn`},
		{nil, func(*section) {}, "1 plots, of which 0 are declared"},
		{[]string{"latency"}, func(s *section) { s.plots = append(s.plots, s.plots[0]) }, `plot "latency": drawn twice`},
	} {
		s := reported(t, io.Discard)
		tt.change(s)
		if err := s.check(tt.declared); tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestTheDocumentKeepsWhatIsByHand: only the part's own place changes.
func TestTheDocumentKeepsWhatIsByHand(t *testing.T) {
	const before, after = "# By hand\n\n<!-- bench:fencing -->\nold\n<!-- /bench -->\n", "\nMore.\n"
	d := document{t.TempDir()}
	path := filepath.Join(d.folder, documentName)
	if err := os.WriteFile(path, []byte(before+"<!-- bench:latency -->\nold\n<!-- /bench -->"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	s := reported(t, io.Discard)
	for range 2 { // The second time there is something to replace.
		if err := d.write(s, "go1.26."); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := before + "<!-- bench:latency -->\n\n" + s.markdown("go1.26.") + "\n<!-- /bench -->" + after; string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for _, file := range []string{"latency-light.svg", "latency-dark.svg"} {
		if svg, err := os.ReadFile(filepath.Join(d.folder, plotFolder, file)); err != nil || !bytes.Equal(svg, s.plots[0].svg[file]) {
			t.Errorf("%s is %q, %v", file, svg, err)
		}
	}
	if files, err := os.ReadDir(d.folder); err != nil || len(files) != 2 {
		t.Errorf("%v, %v: want the document and the plots", files, err)
	}
}

// TestPlacesThatAreAmiss are told before anything is measured.
func TestPlacesThatAreAmiss(t *testing.T) {
	const place = "<!-- bench:latency -->\n<!-- /bench -->\n"
	for text, want := range map[string]string{
		place:                      "",
		"none":                     `no line "<!-- bench:latency -->"`,
		place + place:              "two lines",
		"<!-- bench:latency -->\n": `no line "<!-- /bench -->" ends`,
		"<!-- bench:latency -->\n<!-- bench:fencing -->\n<!-- /bench -->\n": "ends",
		place + "<!-- bench:other -->\n<!-- /bench -->\n":                   "no such part",
	} {
		d := document{t.TempDir()}
		if err := os.WriteFile(filepath.Join(d.folder, documentName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := d.check([]part{{name: "latency"}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := (document{t.TempDir()}).check(nil); err == nil {
		t.Error("no document: no error")
	}
}

// TestAPartThatFails leaves the document as it was.
func TestAPartThatFails(t *testing.T) {
	want := errors.New("failed")
	d := document{t.TempDir()}
	path := filepath.Join(d.folder, documentName)
	const text = "<!-- bench:latency -->\nold\n<!-- /bench -->\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(settings, *section) error{
		"fails":       func(settings, *section) error { return want },
		"has nothing": func(settings, *section) error { return nil },
	} {
		if err := (part{name: "latency", run: run}).report(settings{write: d.folder}, io.Discard, ""); err == nil {
			t.Errorf("a part that %s: no error", name)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("a part that %s: %q, %v", name, got, err)
		}
	}
}

// TestPrintFails: a writer that fails must end the run, or a full disk would lose the
// figures without a word.
func TestPrintFails(t *testing.T) {
	want := errors.New("full")
	s := &section{out: failing{want}}
	table := tables.New("title", "column")
	table.Add("cell")
	for name, err := range map[string]error{"table": s.table(table), "aside": s.aside(table), "note": s.note("n")} {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestCommand(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "make bench",
		"-write ../docs/generated":        "make bench",
		"-parts late -write=x --rounds=2": `make bench BENCHFLAGS="-parts late --rounds=2"`,
		"-cpuprofile f -nodes 3":          `make bench BENCHFLAGS="-nodes 3"`,
	} {
		if got := (settings{args: strings.Fields(args)}).command(); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	for path, want := range map[string]string{
		"github.com/go-redsync/redsync/v4": "redsync", "github.com/gomodule/redigo": "redigo", "go.etcd.io/etcd/client/v3": "etcd client",
	} {
		if got := libraryName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
