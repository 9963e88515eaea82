// Command spec has Spin search lease.pml: the rules as they are, to the end and without an error, and each broken
// variant for a shortest way to one. It needs spin and gcc.
//
//	go run ./spec          in some seconds
//	go run ./spec -long    larger sizes, too
//	go run ./spec -write   writes traces.md
package main

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed lease.pml
var lease string

// sizes are those at which the right rules are searched: without -long only the first.
var sizes = []string{
	"-DN=3 -DC=2 -DTTL=4", "-DN=5 -DC=2 -DTTL=3", "-DN=4 -DC=2 -DTTL=3", "-DN=3 -DC=3 -DTTL=3", "-DN=3 -DC=2 -DTTL=3 -DKEEP",
}

func main() {
	long := flag.Bool("long", false, "search larger sizes, too")
	write := flag.Bool("write", false, "write traces.md")
	flag.Parse()
	if err := run(*long, *write); err != nil {
		fmt.Fprintln(os.Stderr, "spec:", err)
		os.Exit(1)
	}
}

func run(long, write bool) error {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				return fmt.Errorf("no %s: scripts/tools.sh installs it", tool)
			}
			fmt.Printf("spec: skipped: no %s\n", tool)
			return nil
		}
	}
	var right, broken []*search
	for i, size := range sizes {
		if i == 0 || long {
			right = append(right, &search{what: "the right rules, " + size, model: lease, size: size})
		}
	}
	for _, v := range variants {
		size := fmt.Sprintf("-DN=3 -DC=%d -DTTL=3", max(v.Clients, 2))
		broken = append(broken, &search{what: v.Name, model: v.model(), size: size, broken: true})
	}
	if err := searchAll(append(right, broken...)); err != nil {
		return err
	}
	file, text := filepath.Join("spec", "traces.md"), traces(broken)
	if write {
		return os.WriteFile(file, []byte(text), 0o644)
	}
	committed, err := os.ReadFile(file)
	if err == nil && string(committed) != text {
		err = errors.New("traces.md is not what the search has found: make spec-traces writes it")
	}
	return err
}

// model is lease.pml with the variant's rule instead of the right one.
func (v *variant) model() string {
	const here = "/* Here make spec replaces a rule by a broken one. */\n"
	name, _, _ := strings.Cut(v.Rule, "(")
	return strings.Replace(lease, here, fmt.Sprintf("#undef %s\n#define %s %s\n", name, v.Rule, v.Is), 1)
}

var comment = regexp.MustCompile(`(?s)\s*/\*.*?\*/`)

// version is of all that the traces follow from, which comments are not.
func version() string {
	all := ""
	for _, v := range variants {
		all += v.Name + v.Wrong + comment.ReplaceAllString(v.model(), "")
	}
	return fmt.Sprintf("%.16x", sha256.Sum256([]byte(all)))
}

// traces is the text of traces.md.
func traces(found []*search) string {
	text := `# What broken rules lead to

Written by make spec-traces, not by hand. Each part says what is wrong with a variant of [lease.pml](lease.pml), and
has one of its shortest ways from there to an error. A test plays it against the library, where it must not come true.

Version: ` + version() + "\n"
	for i, s := range found {
		text += fmt.Sprintf("\n## %s\n\n%s\n\n", s.what, variants[i].Wrong)
		for k, line := range s.steps {
			text += fmt.Sprintf("%d. %s\n", k+1, line)
		}
		text += "\n" + s.end + "\n"
	}
	return text
}

// A search is one run of Spin, and what came of it.
type search struct {
	what, model, size string
	broken            bool // It must find an error.

	says  string
	steps []string // to the error
	end   string   // what the error is
	err   error
}

// searchAll makes as many searches at a time as there are processors.
func searchAll(searches []*search) (err error) {
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for _, s := range searches {
		free <- struct{}{}
		wg.Go(func() {
			s.run()
			<-free
		})
	}
	wg.Wait()
	for _, s := range searches {
		fmt.Printf("%s: %s\n", s.what, s.says)
		err = errors.Join(err, s.err)
	}
	return err
}

var (
	states = regexp.MustCompile(`([\d.e+]+) states, stored`)
	errs   = regexp.MustCompile(`errors: (\d+)`)
	broke  = regexp.MustCompile(`assertion violated \W*(\w+)`)
	step   = regexp.MustCompile(`(?m)^(?:client|node|the key|a tick) .*$`)
)

// ends says what the assertions are about, by their arrays.
var ends = map[string]string{"left": "Two clients believe at a time.", "robbed": "The lock was another's in between."}

func (s *search) run() {
	began := time.Now()
	folder, err := os.MkdirTemp("", "spec")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		err = os.WriteFile(filepath.Join(folder, "lease.pml"), []byte(s.model), 0o600)
	}
	in := func(command string) string {
		if err != nil {
			return ""
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = folder
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", command, err, out)
		}
		return string(out)
	}
	options := "-O2 -DCOLLAPSE"
	if s.broken {
		options = "-O1 -DBFS" // Breadth first: the first error is at the end of a shortest way.
	}
	in("spin " + s.size + " -a lease.pml && gcc -w -DSAFETY " + options + " -o pan pan.c")
	out := in("./pan -m2000000")
	count, _ := strconv.ParseFloat(first(states, out), 64) // Spin writes 1e+07.
	s.says = fmt.Sprintf("%.0f states in %.1f s", count, time.Since(began).Seconds())
	if s.broken && first(errs, out) == "1" {
		s.end, s.steps = ends[first(broke, out)], step.FindAllString(in("./pan -r lease.pml.trail"), -1)
		s.says += fmt.Sprintf(", an error in %d steps", len(s.steps))
	}
	done := first(errs, out) == "0" && count > 0 && !strings.Contains(out, "Search not completed")
	if err == nil && (s.broken && (s.end == "" || len(s.steps) == 0) || !s.broken && !done) {
		err = fmt.Errorf("not what must come of it: %s", out)
	}
	if err != nil {
		s.err = fmt.Errorf("%s: %w", s.what, err)
	}
}

func first(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
