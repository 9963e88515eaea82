package timeline

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

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
	Faults  map[string][]moment // By their names.
	Left    []fact              // The keys that nodes had when it was over.
	Looked  int                 // How many nodes were looked at then.
	Clients int                 // As many as have lanes.
	Cut     bool
	Locks   int // That were acquired.
	Hits    int // Faults.
}

// A fact is a line of the header.
type fact struct{ Name, Value string }

// A moment is a fault: which one of the scene's, of whom, and when.
type moment struct {
	Number            int
	Lane, When, Since string
	Detail            string
}

// header fills in what the first line says, what was left, and how much there is in between.
func (c *content) header(events []history.Event) {
	c.Cut = true
	for _, e := range events {
		switch e.Kind {
		case history.Keys:
			if e.Node == nil {
				continue
			}
			c.Looked++
			if len(e.Keys) > 0 {
				c.Left = append(c.Left, fact{nodeLane(*e.Node), strings.Join(e.Keys, ", ")})
			}
		case history.End:
			c.Cut = false
		case history.FaultBegin:
			if e.Fault != history.Stall { // Nobody made it.
				c.Hits++
			}
		case history.Return:
			if e.OK && (e.Op == history.OpLock || e.Op == history.OpTryLock) {
				c.Locks++
			}
		}
	}
	r := c.Verdict.Run
	c.Title = cmp.Or(r.Library, "redlock") + " under faults"
	c.Facts = []fact{{"seed", fmt.Sprint(r.Seed)}, {"course", r.Course}, {"commit", r.Commit}, {"started", started(r.Started)}}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		version, _, _ := strings.Cut(r.Versions[name], " sha=") // What servers say of their build is long.
		c.Facts = append(c.Facts, fact{name, version})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		c.Facts = append(c.Facts, fact{name, r.Settings[name]})
	}
	c.Facts = slices.DeleteFunc(c.Facts, func(f fact) bool { return f.Value == "" })
}

func started(s string) string {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
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

// lanes counts the clients that are drawn: a run may have more than it says, such as one that no fault disturbs.
func (c *content) lanes(s *scene) {
	for _, l := range s.Lanes {
		if l.Kind == "client" {
			c.Clients++
		}
	}
}

// faults lists them by their names.
func (c *content) faults(s *scene) {
	c.Faults = map[string][]moment{}
	for i, f := range s.Faults {
		m := moment{Number: i, Lane: s.Lanes[f.Lane].Name, When: seconds(f.From), Detail: s.Texts[f.Detail]}
		if f.To >= 0 {
			m.Since = seconds(f.To - f.From)
		}
		c.Faults[s.Texts[f.Name]] = append(c.Faults[s.Texts[f.Name]], m)
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
