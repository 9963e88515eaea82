package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/test/tables"
)

// Figures are what one library did under one group of faults.
type Figures struct {
	Library string `json:"library"`
	Version string `json:"version"`
	Faults  string `json:"faults"`
	Seed    uint64 `json:"seed"`
	Seconds int    `json:"seconds"`

	judge.Tally
}

// A report is what a run of the course leaves.
type report struct {
	Commit   string                       `json:"commit"`
	Date     string                       `json:"date"`
	Server   string                       `json:"server"`
	Versions map[string]map[string]string `json:"versions"` // Of each library, and of what it stands on.
	Figures  []Figures                    `json:"figures"`
	Sums     []Figures                    `json:"sums"` // Of each library.
}

// write leaves the tables, for people on out and in a file, and for programs in another.
func write(out io.Writer, f flags, all []Figures) error {
	r := report{history.Commit(), time.Now().UTC().Format(time.DateOnly), history.Server(), make(map[string]map[string]string), all, nil}
	for _, l := range peers {
		r.Versions[l.name] = versions(l)
		if sum := r.sum(l.name, ""); sum.Library != "" {
			r.Sums = append(r.Sums, sum)
		}
	}
	text := r.text()
	_, err := io.WriteString(out, text)
	b, wrong := json.MarshalIndent(r, "", "  ")
	return errors.Join(err, wrong, os.WriteFile(filepath.Join(f.out, "peers.json"), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(f.out, "peers.md"), []byte(text), 0o644))
}

// text has a table of each library's sums, and one of what happened under which faults.
func (r report) text() string {
	head := []string{"library"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	sums := tables.New("", head...)
	var names []string
	for _, sum := range r.Sums {
		row := []string{sum.Library}
		for _, c := range columns {
			row = append(row, c.cell(sum))
		}
		sums.Add(row...)
		names = append(names, sum.Library)
	}
	where := tables.New("", append([]string{"faults"}, names...)...)
	for _, g := range groups {
		row := []string{g.name}
		for _, name := range names {
			cell := ""
			if sum := r.sum(name, g.name); sum.Library != "" {
				cell = sum.short()
			}
			row = append(row, cell)
		}
		where.Add(row...)
	}
	return sums.Markdown() + "\n" + where.Markdown()
}

// A column is what is counted of a library, and, in milliseconds, the longest of that.
type column struct {
	name    string
	count   func(f *Figures) *int // nil: of this library, it is not counted.
	longest func(f *Figures) *int64
}

var columns = []column{
	{"locks", func(f *Figures) *int { return &f.Locks }, nil},
	{"overlaps", func(f *Figures) *int { return &f.Overlaps }, func(f *Figures) *int64 { return &f.LongestOverlap }},
	{"lost updates", func(f *Figures) *int { return &f.LostUpdates }, nil},
	{"keys left by failures", func(f *Figures) *int { return &f.OrphansFailed }, nil},
	{"keys left by releases", func(f *Figures) *int { return &f.OrphansReleased }, nil},
	{"keys left in the end", func(f *Figures) *int { return &f.LeftInTheEnd }, nil},
	{"calls over 1 s", func(f *Figures) *int { return &f.Slow }, func(f *Figures) *int64 { return &f.Longest }},
	{"over 10 s, or never back", func(f *Figures) *int { return &f.Hung }, nil},
	{"lost wake-ups", func(f *Figures) *int { return f.NoWakeUp }, nil},
}

func (c column) cell(f Figures) string {
	switch n := c.count(&f); {
	case n == nil:
		return "polls"
	case *n > 0 && c.longest != nil:
		return fmt.Sprintf("%d (%.2f s)", *n, float64(*c.longest(&f))/1000)
	default:
		return fmt.Sprint(*n)
	}
}

// sum adds up the runs of a library under some faults, or under all. It is of no library if there are none.
func (r report) sum(library, faults string) (sum Figures) {
	for _, f := range r.Figures {
		if f.Library != library || faults != "" && f.Faults != faults {
			continue
		}
		sum.Library, sum.Version = f.Library, f.Version
		if f.NoWakeUp != nil && sum.NoWakeUp == nil {
			sum.NoWakeUp = new(int)
		}
		for _, c := range columns {
			if n := c.count(&f); n != nil {
				*c.count(&sum) += *n
			}
			if c.longest != nil {
				*c.longest(&sum) = max(*c.longest(&sum), *c.longest(&f))
			}
		}
	}
	return sum
}

// short is what happened in a run, without what did not.
func (f Figures) short() string {
	parts := []string{fmt.Sprintf("%d locks", f.Locks)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("**%d** %s", n, what))
		}
	}
	add(f.Overlaps, fmt.Sprintf("overlaps (%.2f s)", float64(f.LongestOverlap)/1000))
	add(f.LostUpdates, "lost updates")
	add(f.OrphansFailed+f.OrphansReleased+f.LeftInTheEnd, "keys left")
	add(f.Slow, fmt.Sprintf("slow (%.2f s)", float64(f.Longest)/1000))
	add(f.Hung, "over 10 s or never back")
	if f.NoWakeUp != nil {
		add(*f.NoWakeUp, "not woken")
	}
	return strings.Join(parts, ", ")
}

// versions are those of a library's parts.
func versions(l peer) map[string]string {
	all := make(map[string]string)
	info, _ := debug.ReadBuildInfo()
	for _, m := range l.modules {
		all[m] = cmp.Or(installed(m), "this commit")
		for _, d := range info.Deps {
			if d.Path == m && d.Replace == nil {
				all[m] = d.Version
			}
		}
	}
	return all
}

// installed is the version of a package of node, "" if it is none.
func installed(name string) string {
	b, err := os.ReadFile(filepath.Join(node.Folder(), "node_modules", name, "package.json"))
	var about struct{ Version string }
	if err != nil || json.Unmarshal(b, &about) != nil {
		return ""
	}
	return about.Version
}
