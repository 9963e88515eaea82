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
	"github.com/seed6c881748/redlock/test/tables"
)

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
			row = append(row, c.of(sum))
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

// columns are what is said of a library.
var columns = []struct {
	name string
	of   func(f Figures) string
}{
	{"locks", func(f Figures) string { return fmt.Sprint(f.Locks) }},
	{"overlaps", func(f Figures) string { return counted(f.Overlaps, f.LongestOverlap) }},
	{"lost updates", func(f Figures) string { return fmt.Sprint(f.LostUpdates) }},
	{"keys left by failures", func(f Figures) string { return fmt.Sprint(f.OrphansFailed) }},
	{"keys left by releases", func(f Figures) string { return fmt.Sprint(f.OrphansReleased) }},
	{"keys left in the end", func(f Figures) string { return fmt.Sprint(f.LeftInTheEnd) }},
	{"calls over 1 s", func(f Figures) string { return counted(f.Slow, f.Longest) }},
	{"over 10 s, or never back", func(f Figures) string { return fmt.Sprint(f.Hung) }},
	{"lost wake-ups", func(f Figures) string {
		if f.NoWakeUp == nil {
			return "polls"
		}
		return fmt.Sprint(*f.NoWakeUp)
	}},
}

// counted is a number, and the longest of what it counts.
func counted(n int, milliseconds int64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2f s)", n, float64(milliseconds)/1000)
}

// sum adds up the runs of a library under some faults, or under all. It is of no library if there are none.
func (r report) sum(library, faults string) (sum Figures) {
	for _, f := range r.Figures {
		if f.Library != library || faults != "" && f.Faults != faults {
			continue
		}
		sum.Library, sum.Version = f.Library, f.Version
		sum.Locks += f.Locks
		sum.Overlaps += f.Overlaps
		sum.LongestOverlap = max(sum.LongestOverlap, f.LongestOverlap)
		sum.LostUpdates += f.LostUpdates
		sum.OrphansFailed += f.OrphansFailed
		sum.OrphansReleased += f.OrphansReleased
		sum.LeftInTheEnd += f.LeftInTheEnd
		sum.Slow += f.Slow
		sum.Longest = max(sum.Longest, f.Longest)
		sum.Hung += f.Hung
		if f.NoWakeUp != nil {
			n := *f.NoWakeUp
			if sum.NoWakeUp != nil {
				n += *sum.NoWakeUp
			}
			sum.NoWakeUp = &n
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
	add(int(f.LostUpdates), "lost updates")
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
