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
	list, err := git(r.root, "diff", "--name-only", "HEAD", "--", ".", ":!proof/mutants")
	for changed := range strings.FieldsSeq(list) {
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
	for i, e := range m.edits {
		if i == 0 || e.path != m.edits[i-1].path || len(m.edits[i-1].new) == 0 {
			say(w, "in %s\n", e.path)
		}
		say(w, "%s", e.text())
	}
	if err == nil && len(noticed) == 0 {
		err = errors.New("no test has noticed it")
	}
	return err
}

func (e edit) text() (text string) {
	for _, line := range e.old {
		text += "-" + line + "\n"
	}
	for _, line := range e.new {
		text += "+" + line + "\n"
	}
	return text
}

var hunk = regexp.MustCompile(`(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// difference adds what is changed in a file: each hunk with as many lines around it as make its old text unique.
func (r *runner) difference(m *mutant, changed string) error {
	was, err := git(r.root, "show", "HEAD:"+changed)
	is, err2 := os.ReadFile(filepath.Join(r.root, changed))
	diff, err3 := git(r.root, "diff", "--no-ext-diff", "-U0", "HEAD", "--", changed)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	before, after := strings.Split(was, "\n"), strings.Split(string(is), "\n")
	free, end := indentationIsFree(changed), 0
	for _, match := range hunk.FindAllStringSubmatch(diff, -1) {
		var n [4]int
		for i, digits := range match[1:] {
			n[i] = 1
			if digits != "" {
				n[i], _ = strconv.Atoi(digits)
			}
		}
		from, to, nowFrom, nowTo := n[0]-1, n[0]-1+n[1], n[2]-1, n[2]-1+n[3]
		if n[1] == 0 { // Lines are added behind the one that is named; where lines are taken away, that one is named, too.
			from, to = from+1, to+1
		}
		if n[3] == 0 {
			nowFrom, nowTo = nowFrom+1, nowTo+1
		}
		for from >= end && to < len(before) && (from == to || !unique(before, before[from:to], free)) {
			if from > end {
				from, nowFrom = from-1, nowFrom-1
			} else { // What is before it is changed, too, or the file begins.
				to, nowTo = to+1, nowTo+1
			}
		}
		if from < end || !unique(before, before[from:to], free) {
			return fmt.Errorf("%s:%d: what is changed there cannot be told from its surroundings", changed, from+1)
		}
		m.edits, end = append(m.edits, edit{changed, before[from:to], after[nowFrom:nowTo]}), to
	}
	return nil
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
