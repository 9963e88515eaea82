package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// write leaves the table, for people on stdout and in a file, and for programs in another.
func write(f flags, all []Figures) error {
	text := table(all)
	fmt.Print(text)
	used := map[string]any{"server": server()}
	for _, l := range libraries {
		used[l.name] = versions(l)
	}
	b, err := json.MarshalIndent(map[string]any{
		"commit": commit(), "date": time.Now().UTC().Format(time.DateOnly), "versions": used, "figures": all,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(f.out, "peers.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.out, "peers.md"), []byte(text), 0o644)
}

// columns are what the table has of each run.
var columns = []struct {
	name string
	of   func(f Figures) string
}{
	{"faults", func(f Figures) string { return f.Faults }},
	{"library", func(f Figures) string { return f.Library }},
	{"locks", func(f Figures) string { return fmt.Sprint(f.Locks) }},
	{"overlaps (longest)", func(f Figures) string { return counted(f.Overlaps, f.LongestOverlap) }},
	{"lost updates", func(f Figures) string { return fmt.Sprint(f.LostUpdates) }},
	{"keys left by failures", func(f Figures) string { return fmt.Sprint(f.OrphansFailed) }},
	{"keys left by releases", func(f Figures) string { return fmt.Sprint(f.OrphansReleased) }},
	{"calls over 1 s (longest)", func(f Figures) string { return counted(f.Slow, f.Longest) }},
	{"calls hung", func(f Figures) string { return fmt.Sprint(f.Hung) }},
	{"lost wake-ups", func(f Figures) string {
		if f.NoWakeUp == nil {
			return "polls"
		}
		return fmt.Sprint(*f.NoWakeUp)
	}},
}

func counted(n int, milliseconds int64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2f s)", n, float64(milliseconds)/1000)
}

func table(all []Figures) string {
	var b strings.Builder
	row := func(cell func(i int) string) {
		for i := range columns {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	row(func(i int) string { return columns[i].name })
	row(func(i int) string { return map[bool]string{true: "---", false: "---:"}[i < 2] })
	for _, f := range all {
		row(func(i int) string { return columns[i].of(f) })
	}
	return b.String()
}

// line is what is said of a run as soon as it is over.
func (f Figures) line() string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, c.name+" "+c.of(f))
	}
	return strings.Join(parts, ", ")
}

// versions are those of a library's parts.
func versions(l peer) map[string]string {
	all := make(map[string]string)
	info, _ := debug.ReadBuildInfo()
	for _, m := range l.modules {
		all[m] = "this commit"
		if v := installed(m); v != "" {
			all[m] = v
		}
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

// server is the first line of what the server says of itself.
func server() string {
	bin, err := testcluster.ServerBinary()
	if err != nil {
		return ""
	}
	out, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
