package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// suggest prints what is changed in the working tree as a mutant, with the tests that notice it. It runs those of the
// packages that import what is changed: in its own module, and in the others if none has failed there.
func (r *runner) suggest(ctx context.Context, w io.Writer) error {
	m := &mutant{Name: "the change"}
	files, err := r.changedFiles()
	for _, changed := range files {
		if err == nil {
			err = r.difference(m, changed)
		}
	}
	if err == nil && len(m.edits) == 0 {
		err = errors.New("nothing is changed: break the code, and take that back when the mutant is written")
	}
	if err != nil {
		return err
	}
	modules, err := r.modules(m.edits[0].path)
	if err != nil {
		return err
	}
	var noticed []string
	for _, module := range modules {
		if len(noticed) == 0 && err == nil {
			noticed, err = r.noticed(ctx, module, m.files())
		}
	}
	say(w, "## slug: what is wrong with the code\n%s", strings.Join(noticed, ""))
	say(w, "%s", m.text())
	if err == nil && len(noticed) == 0 {
		err = errors.New("no test has noticed it")
	}
	return err
}

// text is what the mutant changes, as parse reads it.
func (m *mutant) text() (text string) {
	for i, e := range m.edits {
		if i == 0 || e.path != m.edits[i-1].path || len(m.edits[i-1].new) == 0 {
			text += "in " + e.path + "\n"
		}
		for _, line := range e.old {
			text += "-" + line + "\n"
		}
		for _, line := range e.new {
			text += "+" + line + "\n"
		}
	}
	return text
}

// changedFiles are those that differ from the last commit. A mutant only changes files that there are.
func (r *runner) changedFiles() (paths []string, err error) {
	list, err := git(r.root, "diff", "--name-status", "--no-renames", "-z", "HEAD", "--", ".", ":!proof/mutants")
	unknown, err2 := git(r.root, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.go", "*.lua")
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	words := strings.Split(list, "\x00") // A, M or D, and a path.
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] != "M" {
			return nil, fmt.Errorf("%s is new or gone, and a mutant only changes lines: commit your own work before you break it", words[i+1])
		}
		paths = append(paths, words[i+1])
	}
	if unknown != "" {
		return nil, fmt.Errorf("git does not know these files: commit your own work before you break it: %q", strings.Split(unknown, "\x00"))
	}
	return paths, nil
}

var hunkRE = regexp.MustCompile(`(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// A hunk is lines that differ: from (inclusive) and to (exclusive), as they were and as they are now.
type hunk struct{ from, to, nowFrom, nowTo int }

// difference adds what is changed in a file: each hunk with as many lines around it as make its old text unique.
func (r *runner) difference(m *mutant, changed string) error {
	was, err := git(r.root, "show", "HEAD:"+changed)
	is, err2 := os.ReadFile(filepath.Join(r.root, changed))
	diff, err3 := git(r.root, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--text", "-U0", "HEAD", "--", changed)
	if err = errors.Join(err, err2, err3); err != nil {
		return err
	}
	before, after := strings.Split(was, "\n"), strings.Split(string(is), "\n")
	var hunks []hunk
	for _, match := range hunkRE.FindAllStringSubmatch(diff, -1) {
		var h hunk
		h.from, h.to = lines(match[1], match[2])
		h.nowFrom, h.nowTo = lines(match[3], match[4])
		hunks = append(hunks, h)
	}
	if n := len(hunks); n > 0 && (before[len(before)-1] == "") != (after[len(after)-1] == "") {
		hunks[n-1].to, hunks[n-1].nowTo = len(before), len(after) // A line end has come or gone there.
	}
	for i := 0; i < len(hunks); {
		if h := hunks[i]; h.from < h.to && unique(before, before[h.from:h.to], indentationIsFree(changed)) {
			i++
		} else {
			hunks, i = grow(hunks, i, len(before))
		}
	}
	for _, h := range hunks {
		m.edits = append(m.edits, edit{path: changed, old: before[h.from:h.to], new: after[h.nowFrom:h.nowTo]})
	}
	got, err := m.edit(changed, before)
	if err == nil && got != string(is) { // As of a file that is no text.
		err = errors.New("what is changed there cannot be said in lines")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", changed, err)
	}
	return nil
}

// lines are those that a diff numbers, from 0 on. Of no lines it names the one before.
func lines(first, count string) (from, to int) {
	from, _ = strconv.Atoi(first)
	n, err := strconv.Atoi(count)
	switch {
	case err != nil: // One line has no count.
		return from - 1, from
	case n == 0:
		return from, from
	}
	return from - 1, from - 1 + n
}

// grow takes a line before a hunk to it, or one behind it, or makes one of it and its neighbour. It returns where to go on.
func grow(hunks []hunk, i, end int) ([]hunk, int) {
	h, start := &hunks[i], 0
	if i > 0 {
		start = hunks[i-1].to
	}
	if i+1 < len(hunks) {
		end = hunks[i+1].from
	}
	switch {
	case h.from > start:
		h.from, h.nowFrom = h.from-1, h.nowFrom-1
	case h.to < end:
		h.to, h.nowTo = h.to+1, h.nowTo+1
	case i+1 < len(hunks):
		h.to, h.nowTo = hunks[i+1].to, hunks[i+1].nowTo
		hunks = slices.Delete(hunks, i+1, i+2)
	default:
		hunks[i-1].to, hunks[i-1].nowTo = h.to, h.nowTo
		return hunks[:i], i - 1
	}
	return hunks, i
}

func unique(lines, old []string, free bool) bool {
	_, err := find(lines, old, free)
	return err == nil
}

// modules are the folders of all modules, that of a file first.
func (r *runner) modules(file string) ([]string, error) {
	list, err := git(r.root, "ls-files", "go.mod", "*/go.mod")
	var all []string
	for mod := range strings.FieldsSeq(list) {
		all = append(all, path.Dir(mod))
	}
	// The module of a file is the deepest one above it.
	depth := func(module string) int {
		if module == "." || strings.HasPrefix(file, module+"/") {
			return len(module)
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b string) int { return depth(b) - depth(a) })
	return all, err
}

// noticed runs the short tests of a module's packages that import one of the files' packages, and returns those that fail
// as a mutant names them.
func (r *runner) noticed(ctx context.Context, module string, files []string) (lines []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}", "./...")
	cmd.Dir = filepath.Join(r.root, module)
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", module, err)
	}
	for line := range strings.Lines(string(list)) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" []\n", r) })
		if !slices.ContainsFunc(files, func(file string) bool { return slices.Contains(words, r.packageOf(file)) }) {
			continue
		}
		pkg := "./" + strings.TrimPrefix(strings.TrimPrefix(words[0], path.Join(modulePath, module)), "/")
		switch v := r.test(ctx, cmd.Dir, tests{Package: pkg}, nil, nil); {
		case v.broken != "":
			return lines, errors.New(v.broken)
		case len(v.failed) > 0:
			lines = append(lines, "test "+pkg+" "+strings.Join(v.failed, " ")+"\n")
		}
	}
	if len(lines) > 0 && module != "." {
		lines = append(lines, "module "+module+"\n")
	}
	return lines, nil
}

const modulePath = "github.com/seed6c881748/redlock"

// packageOf returns the import path of the package that has a file, or embeds it.
func (r *runner) packageOf(file string) string {
	folder := path.Dir(file)
	for folder != "." {
		if in, _ := filepath.Glob(filepath.Join(r.root, folder, "*.go")); len(in) > 0 {
			break
		}
		folder = path.Dir(folder)
	}
	return path.Join(modulePath, folder)
}
