package snippets

import (
	"slices"
	"strings"
	"testing"
)

// The checks themselves are checked: they find what is wrong, where it is, and
// nothing else.

func TestParseMarkdown(t *testing.T) {
	text := strings.ReplaceAll(strings.Join([]string{
		"# Title, with `code` and [a link](x.md)",
		"See [one](a.md#b) and ![three](c.png \"title\").",
		"Not `[code](no.md)`, not ``[code](`no.md)``.",
		"'''go",
		"first := 1 // [no](no.md)",
		"'''",
		"## Again",
		"## Again ##",
		"* In a list:",
		"",
		"  '''go nocheck",
		"  if second {",
		"  \treturn",
		"  }",
		"  '''",
		"<a id=\"here\"></a> <img src=\"d.png\">",
		"~~~",
		"'''go",
		"~~~",
		"[def]: e.md",
		"",
	}, "\n"), "'''", "```")
	p, err := parseMarkdown("f.md", text)
	if err != nil {
		t.Fatal(err)
	}

	wantBlocks := []block{
		{"f.md", 5, "go", "first := 1 // [no](no.md)"},
		{"f.md", 12, "go nocheck", "if second {\n\treturn\n}"},
		{"f.md", 18, "", "```go"},
	}
	if !slices.Equal(p.blocks, wantBlocks) {
		t.Errorf("blocks: %q, want %q", p.blocks, wantBlocks)
	}
	wantLinks := []link{{1, "x.md"}, {2, "a.md#b"}, {2, "c.png"}, {16, "d.png"}, {20, "e.md"}}
	if !slices.Equal(p.links, wantLinks) {
		t.Errorf("links: %v, want %v", p.links, wantLinks)
	}
	for _, a := range []string{"title-with-code-and-a-link", "again", "again-1", "here"} {
		if !p.anchors[a] {
			t.Errorf("no anchor %s in %v", a, p.anchors)
		}
	}

	if _, err := parseMarkdown("f.md", "\n```go\nx\n"); err == nil || !strings.HasPrefix(err.Error(), "f.md:2:") {
		t.Errorf("an open block: %v", err)
	}
}

func TestLongLines(t *testing.T) {
	word, words := strings.Repeat("x", maxLine), strings.Repeat("ä ", maxLine/2)
	text := strings.ReplaceAll(strings.Join([]string{
		words[:len(words)-1],
		words + "y",
		"| " + words + "|",
		"  * " + word,
		"[" + word + "](x.md)",
		"See [" + word + "](x.md)",
		"'''",
		words + "y",
		"'''",
		"## " + words,
	}, "\n"), "'''", "```")
	p, err := parseMarkdown("f.md", text)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{2, 6, 10}; !slices.Equal(p.long, want) {
		t.Errorf("lines %v, want %v", p.long, want)
	}
}

func TestCheckLink(t *testing.T) {
	all := map[string]page{"docs/x.md": {anchors: map[string]bool{"a": true}}}
	for target, want := range map[string]string{
		"#a":                     "",
		"#b":                     "no heading of docs/x.md",
		"x.md":                   "no file",
		"../go.mod":              "",
		"../redlock/":            "",
		"../go.mod#L3":           "",
		"../../go.mod":           "leaves the repository",
		"https://example.com/#b": "",
		"mailto:a@example.com":   "",
	} {
		err := checkLink(all, "docs/x.md", target)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}

func TestCheckBlock(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // of the first error; none: no error
	}{
		{"statements", `
lock, err := r.TryLock(ctx, []string{"a"}, 10*time.Second)
if errors.Is(err, redlock.ErrTaken) {
	return nil // someone else has it
}
if err != nil {
	return err
}
defer func() { _ = lock.Unlock(ctx) }()`, ""},
		{"an unused variable", "token := lock.Token()", ""},
		{"two results", "if true {\n\treturn nil, err\n}\nreturn lock, nil", ""},
		{"a trailing comment", "log.Print(lock.Until()) // when", ""},
		{"declarations", "type server struct{ lock *redlock.Lock }\n\nfunc (s *server) run(r *redlock.Redlock) {}", ""},
		{"imports", "import \"os\"\n\nvar name = os.Args[0]", ""},
		{"a name of ours", "var r = 1\n\nfunc work() int { return r }", ""},
		{"a program", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }", ""},
		{"a program after a comment", "// Command x.\npackage main\n\nfunc main() {}", ""},

		{"an unknown name", "\nlock.Unlok(ctx)", "f.md:9:"},
		{"an unknown package", "x.Do()", "f.md:8:"},
		{"a wrong type", "var n int\n\nn = lock.Token()", "f.md:10:"},
		{"a syntax error", "if err != nil {\n\treturn )\n}", "f.md:9:"},
		{"a syntax error in a declaration", "func f() {\n\treturn )\n}", "f.md:9:"},
		{"a wrong declaration", "type s struct{}\n\nfunc f() int { return s{} }", "f.md:10:"},
		{"a program with an unused variable", "package main\n\nfunc main() {\n\tx := 1\n}", "f.md:11:"},
		{"a program without an import", "package main\n\nfunc main() { fmt.Println() }", "f.md:10:"},
		{"a program without main", "package main\n\nfunc f() {}", "f.md:8:"},
		{"a program with a package that is not there", "package main\n\nimport _ \"example.com/none\"\n\nfunc main() {}", "f.md:10:"},
	}
	blocks := make([]block, len(tests))
	for i, tt := range tests {
		blocks[i] = block{file: "f.md", line: 8, info: "go", text: tt.text}
	}
	c := newChecker(t, ".", blocks)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs := c.check(blocks[i])
			switch {
			case tt.want == "" && len(errs) > 0:
				t.Error(errs)
			case tt.want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), tt.want)):
				t.Errorf("%v, want %s", errs, tt.want)
			}
		})
	}
}
