// Package timeline draws a run: who held what, who waited, and what was done to them meanwhile.
package timeline

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"

	"github.com/seed6c881748/redlock/internal/pages"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

//go:embed page
var files embed.FS

// The script is one, in files that each have one idea. What other pages have, too, comes first.
var scripts = []string{"data", "view", "draw", "lanes", "overview", "panel", "input"}

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
		c.header(events)
		c.lanes(s)
		c.faults(s)
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
