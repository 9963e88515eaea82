package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/seed6c881748/redlock/test/tables"
)

// reported returns a section of a part as the parts fill it.
func reported(t *testing.T, w io.Writer) *section {
	t.Helper()
	s := &section{name: "latency", out: w}
	table := tables.New("Latency | of one caller", "client", "op/s")
	table.Add("redlock", "12345")
	if err := s.table(table); err != nil {
		t.Fatal(err)
	}
	if err := s.note("A lock was %s.", "held"); err != nil {
		t.Fatal(err)
	}
	c := chart{title: "Locks <per> second", x: "goroutines"}
	c.add("redlock", plotter.XY{X: 1, Y: 6_387})
	c.add("redlock", plotter.XY{X: 64, Y: 42_984})
	c.add("redsync", plotter.XY{X: 64, Y: 8_208})
	if err := s.plot("latency", c); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMarkdown(t *testing.T) {
	got := reported(t, io.Discard).markdown("go1.26; " + strings.Repeat("`make bench` ", 9))
	want := strings.Join([]string{
		"<picture>",
		`  <source media="(prefers-color-scheme: dark)" srcset="plots/latency-dark.svg">`,
		`  <img src="plots/latency-light.svg" alt="Locks &lt;per&gt; second, a line per client">`,
		"</picture>",
		"",
		"Latency | of one caller.",
		"",
		"| client | op/s |",
		"|---|---:|",
		"| redlock | 12\u00a0345 |",
		"",
		"A lock was held.",
		"",
		"Measured with: go1.26; `make bench` `make bench` `make bench` `make bench` `make bench` `make bench` `make bench` `make",
		"bench` `make bench`",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
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
		want := before + "<!-- bench:latency -->\n\n" + s.markdown("go1.26.") + "\n<!-- /bench -->" + after
		if string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for _, file := range []string{"latency-light.svg", "latency-dark.svg"} {
		svg, err := os.ReadFile(filepath.Join(d.folder, plotFolder, file))
		if err != nil || !bytes.Equal(svg, s.files[file]) || !bytes.Contains(svg, []byte("redsync")) {
			t.Errorf("%s is %q, %v", file, svg, err)
		}
	}
	if err := samePlots(d.folder, d.folder); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(d.folder, plotFolder, "latency-dark.svg")); err != nil {
		t.Fatal(err)
	}
	if err := samePlots(d.folder, docsFolder); err == nil {
		t.Error("a plot that is not drawn, or not kept: no error")
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
		if err := (part{"latency", run}).report(settings{write: d.folder}, io.Discard, ""); err == nil {
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
	if err := s.table(table); !errors.Is(err, want) {
		t.Errorf("table: %v", err)
	}
	if err := s.note("n"); !errors.Is(err, want) {
		t.Errorf("note: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
