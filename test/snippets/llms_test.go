package snippets

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
	apis := map[string]string{
		"redlock": document(t, "redlock/api.txt"), "semaphore": document(t, "redlock/semaphore/api.txt"),
		"election": document(t, "redlock/election/api.txt"), "redlocktest": document(t, "redlock/redlocktest/api.txt"),
		"shared": document(t, "redlock/shared/api.txt"),
	}
	assert.Empty(t, unknownNames(document(t, "llms.txt"), apis), "nothing exported is so")

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
	assert.GreaterOrEqual(t, checked, 12, "signatures")
}

func TestUnknownNames(t *testing.T) {
	apis := map[string]string{
		"redlock":   "func New(n int) *Lock\ntype Lock struct\nfield Vote.Node string\nmethod (*Lock) Until() time.Time\nvar ErrTaken error\n",
		"semaphore": "func Of(k int)\n",
	}
	const known = "`New`, `New(3)`, `redlock.New`, `Lock.Until`, `Until`, `Vote.Node`, `ErrTaken`, `semaphore.Of`, `context.Cause`, `go doc`"
	unknown := []string{"`Old`", "`redlock.Of`", "`Vote.Until`", "`semaphore.New`", "`Lock.Node()`", "`Lok`"}
	assert.Equal(t, unknown, unknownNames(known+strings.Join(unknown, ", "), apis))
}
