package snippets

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// llms.txt is read by assistants, which write code from it without a look at the rest: what it
// names is there, and its signatures are those of the code.

// nameRE finds what is like an exported name in a span of code: Name, Type.Name, package.Name,
// each also as a call.
var nameRE = regexp.MustCompile("`(?:([A-Za-z]+)\\.)?([A-Z]\\w+)(?:\\([^`]*\\))?`")

// apiNames returns what a package exports: its names, and Type.Name for fields and methods.
func apiNames(api string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(?:const|var|func|type) (\w+)`).FindAllStringSubmatch(api, -1) {
		names = append(names, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:field |method \(?\*?)(\w+)[.)]+ ?(\w+)`).FindAllStringSubmatch(api, -1) {
		names = append(names, m[2], m[1]+"."+m[2])
	}
	return names
}

// unknownNames returns the names in text that no package has. apis are the lists of what packages
// export, by their names; redlock's need not be named.
func unknownNames(text string, apis map[string]string) []string {
	var all, unknown []string
	byPackage := map[string][]string{}
	for name, api := range apis {
		byPackage[name] = apiNames(api)
		all = append(all, byPackage[name]...)
	}
	for _, m := range nameRE.FindAllStringSubmatch(text, -1) {
		names, of := byPackage[m[1]]
		switch {
		case m[1] == "context" || m[1] == "errors": // The standard library's.
		case of && slices.Contains(names, m[2]):
		case m[1] == "" && slices.Contains(all, m[2]):
		case slices.Contains(all, m[1]+"."+m[2]):
		default:
			unknown = append(unknown, m[0])
		}
	}
	return unknown
}

func TestTheNamesForAssistantsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "llms.txt"))
	if err != nil {
		t.Fatal(err)
	}
	apis := map[string]string{}
	for name, folder := range map[string]string{"redlock": ".", "semaphore": "semaphore", "redlocktest": "redlocktest"} {
		api, err := os.ReadFile(filepath.Join(root, "redlock", folder, "api.txt"))
		if err != nil {
			t.Fatal(err)
		}
		apis[name] = string(api)
	}
	for _, name := range unknownNames(string(text), apis) {
		t.Errorf("llms.txt: nothing exported is %s", name)
	}

	code := strings.Split(strings.ReplaceAll(apis["redlock"], "\nmethod ", "\nfunc "), "\n")
	checked := 0
	for _, b := range pages(t)["llms.txt"].blocks {
		if b.info != "signatures" {
			continue
		}
		for line := range strings.Lines(b.text) {
			if line = strings.TrimSpace(line); !slices.Contains(code, line) {
				t.Errorf("llms.txt: redlock/api.txt has no %s", line)
			}
			checked++
		}
	}
	if checked < 12 {
		t.Errorf("%d signatures, at least a dozen are expected", checked)
	}
}

func TestUnknownNames(t *testing.T) {
	apis := map[string]string{
		"redlock":   "func New(n int) *Lock\ntype Lock struct\nfield Vote.Node string\nmethod (*Lock) Until() time.Time\nvar ErrTaken error\n",
		"semaphore": "func Of(k int)\n",
	}
	text := "`New`, `New(3)`, `redlock.New`, `Lock.Until`, `Until`, `Vote.Node`, `ErrTaken`, `semaphore.Of`, `context.Cause`, `go doc`"
	if unknown := unknownNames(text, apis); len(unknown) > 0 {
		t.Errorf("%q", unknown)
	}
	text = "`Old`, `redlock.Of`, `Vote.Until`, `semaphore.New`, `Lock.Node()`, `Lok`"
	if unknown := unknownNames(text, apis); len(unknown) != 6 {
		t.Errorf("only %q", unknown)
	}
}
