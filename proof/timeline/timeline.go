// Package timeline draws a run: who held what, who waited, and what was done to them meanwhile.
package timeline

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/internal/pages"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

//go:embed page
var files embed.FS

// The script is one, in files that each have one idea. What other pages have, too, comes first.
var scripts = []string{"view", "lanes", "panel", "input"}

var layout = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"number": number,
	"clients": func(n int) string {
		if n == 1 {
			return "1 client"
		}
		return number(n) + " clients"
	},
	"next": func(i int) int { return i + 1 },
	"when": func(ns int64) string { return seconds(micro(ns)) },
}).ParseFS(files, "page/page.html"))

// Write writes a page that shows a history and what a judge said of it: one file that needs no server and no
// network. A history that was cut short is shown as far as it goes.
func Write(w io.Writer, events []history.Event, v judge.Verdict) error {
	s := newScene(events, v.Violations)
	data, err := json.Marshal(s)
	c := content{Data: template.JS(data), Verdict: v, Length: length(s.End)}
	if err == nil {
		err = c.embed()
	}
	if err == nil {
		c.header()
		c.lanes(s)
		err = layout.Execute(w, c)
	}
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	return nil
}

// embed puts style and script in, and allows these and nothing else: even if a name got past the escaping, it could
// run nothing and send nothing away.
func (c *content) embed() error {
	var style, script []byte
	add := func(to *[]byte, from fs.ReadFileFS, name string) (err error) {
		text, err := from.ReadFile(name)
		*to = append(*to, text...)
		return err
	}
	err := errors.Join(add(&style, pages.Files, "common.css"), add(&style, files, "page/style.css"), add(&script, pages.Files, "common.js"))
	for _, name := range scripts {
		err = errors.Join(err, add(&script, files, "page/"+name+".js"))
	}
	if err != nil {
		return err
	}
	c.Style, c.Script = template.CSS(style), template.JS(script)
	c.Policy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		digest(script), digest(style))
	return nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// content is what the template gets. Names and errors are text in it, which the template escapes; in Data it is
// json.Marshal that does.
type content struct {
	Policy string
	Style  template.CSS
	Script template.JS
	Data   template.JS

	Title   string
	Length  string
	Facts   []fact
	Verdict judge.Verdict
	Clients int // As many as have lanes.
	Hits    int // Faults.
}

// A fact is a line of the header.
type fact struct{ Name, Value string }

// header fills in what the first line says.
func (c *content) header() {
	r := c.Verdict.Run
	c.Title = cmp.Or(r.Library, "redlock") + " under faults"
	c.Facts = []fact{{"seed", fmt.Sprint(r.Seed)}, {"course", r.Course}, {"commit", r.Commit}, {"started", r.Started}}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		version, _, _ := strings.Cut(r.Versions[name], " sha=") // What servers say of their build is long.
		c.Facts = append(c.Facts, fact{name, version})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		c.Facts = append(c.Facts, fact{name, r.Settings[name]})
	}
	c.Facts = slices.DeleteFunc(c.Facts, func(f fact) bool { return f.Value == "" })
}

// Says is the outcome in a few words.
func (c content) Says() string {
	switch total := c.Verdict.Total(); total {
	case 0:
		return "no promise was broken"
	case 1:
		return "1 violation of a promise"
	default:
		return fmt.Sprint(total, " violations of promises")
	}
}

// lanes counts the clients that are drawn, and the faults. A run may have more clients than it says, such as one that
// no fault disturbs.
func (c *content) lanes(s *scene) {
	for _, l := range s.Lanes {
		if l.Kind == "client" {
			c.Clients++
		}
	}
	for _, f := range s.Faults {
		if s.Texts[f.Name] != history.Stall { // Nobody made it.
			c.Hits++
		}
	}
}

// length formats a time that need not be exact.
func length(us int64) string {
	if us >= 120e6 {
		return fmt.Sprintf("%.0f minutes", float64(us)/60e6)
	}
	return fmt.Sprintf("%.0f s", float64(us)/1e6)
}

// number sets thousands apart.
func number(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s\u202f%03d", number(n/1000), n%1000)
}

func seconds(us int64) string { return fmt.Sprintf("%.3f s", float64(us)/1e6) }
