package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
)

// A report is the result of a run of all steps.
type report struct {
	OK       bool              `json:"ok"`
	Says     string            `json:"says"`
	Commit   string            `json:"commit"` // With -dirty, where the tree had changes that were not committed.
	Versions map[string]string `json:"versions"`
	Seed     uint64            `json:"seed"`
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"`
	Steps    []done            `json:"steps"`
}

// begin notes what is tested, and on what.
func begin(seed uint64) *report {
	return &report{
		Seed: seed, Started: time.Now(), Commit: history.Commit(),
		Versions: map[string]string{
			"Go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH, "cores": fmt.Sprint(runtime.NumCPU()),
			"server": history.Server(),
		},
	}
}

func (r *report) end() {
	r.Seconds = time.Since(r.Started).Round(time.Second).Seconds()
	var wrong []string
	count := 0
	for _, d := range r.Steps {
		if !d.Aside {
			count++
		}
		if d.Result != passed {
			wrong = append(wrong, d.Title)
		}
	}
	r.OK = len(wrong) == 0
	r.Says = fmt.Sprintf("All %d steps that count passed: no broken promise was seen.", count)
	if !r.OK {
		r.Says = fmt.Sprintf("%d of %d steps failed: %s.", len(wrong), len(r.Steps), strings.Join(wrong, "; "))
	}
}

var backticks = regexp.MustCompile("`([^`]+)`")

//go:embed report.html
var page string

var asPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"minutes": func(seconds float64) string {
		if seconds < 100 {
			return fmt.Sprintf("%.0f s", seconds)
		}
		return fmt.Sprintf("%.1f min", seconds/60)
	},
	"code": func(text string) template.HTML { // Escaped first, so that only the tags of this line are tags.
		return template.HTML(backticks.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>"))
	},
}).Parse(page))

// write puts both forms into the folder.
func (r *report) write(folder string) error {
	for i := range r.Steps { // A step that failed may have left less.
		r.Steps[i].Files = slices.DeleteFunc(slices.Clone(r.Steps[i].Files), func(name string) bool {
			_, err := os.Stat(filepath.Join(folder, name))
			return err != nil
		})
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err = asPage.Execute(&html, r); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, "report.json"), text, 0o644),
		os.WriteFile(filepath.Join(folder, "report.html"), html.Bytes(), 0o644))
}
