package plot

import (
	"errors"
	"fmt"
	"slices"
)

// Dots is a chart of figures for several things: a row for each, in it a marker for each
// figure.
type Dots struct {
	Title  string
	Note   string // a sentence below the title, or nothing
	X      Axis
	Series []Figure
	Rows   []Row
	Joined bool // the figures of a row are values of one thing: they are joined
}

// A Figure is what the markers of one kind stand for.
type Figure struct {
	Name  string
	Style Style
}

// A Row has the values of one thing, by the names of the figures. A figure that it has
// not is left out.
type Row struct {
	Name   string
	Values map[string]float64
}

// SVG implements Chart.
func (d Dots) SVG() ([]byte, error) {
	legend := d.legend()
	f, err := d.layOut(legend)
	if err != nil {
		return nil, fmt.Errorf("plot %q: %w", d.Title, err)
	}
	c := begin(f.bottom+footHeight, d.Title, d.Note)
	for _, e := range legend {
		c.marker(e.x+5, e.y-4, e.Style)
		c.text(e.x+5+gap, e.y, fmt.Sprintf("name h%d", e.Style.Hue), "start", e.Name)
	}
	f.drawX(c, d.X)
	height := (f.bottom - f.top) / float64(len(d.Rows))
	for i, r := range d.Rows {
		middle := f.top + (float64(i)+0.5)*height
		c.line(f.left, middle, f.right, middle, "grid")
		c.text(f.left-gap, middle+4, "ink row", "end", r.Name)
		d.draw(c, f, r, middle)
	}
	return c.end(), nil
}

// draw draws the markers of a row. Those that are not joined have their places one below
// the other, since they may have the same value.
func (d Dots) draw(c *canvas, f frame, r Row, middle float64) {
	var points [][2]float64
	var styles []Style
	for i, s := range d.Series {
		v, ok := r.Values[s.Name]
		if !ok {
			continue
		}
		y := middle
		if !d.Joined {
			y += dotSize * (float64(i) - float64(len(d.Series)-1)/2)
		}
		points, styles = append(points, [2]float64{f.xAt(v), y}), append(styles, s.Style)
	}
	if d.Joined && len(points) > 1 {
		first, last := points[0], points[len(points)-1]
		c.line(first[0], middle, last[0], middle, fmt.Sprintf("lead h%d", styles[0].Hue))
	}
	for i, p := range points {
		c.marker(p[0], p[1], styles[i])
	}
}

// dotSize is the height of a marker, with the space above it.
const dotSize = 12.0

// rowHeight is the height of each row.
func (d Dots) rowHeight() float64 {
	if d.Joined {
		return 2 * dotSize
	}
	return dotSize*float64(len(d.Series)) + dotSize
}

// layOut checks the chart and returns where everything is.
func (d Dots) layOut(legend []entry) (f frame, err error) {
	if err = checkHead(d.Title, d.Note); err != nil {
		return f, err
	}
	values, err := d.values()
	if err != nil {
		return f, err
	}
	if f.x, err = newScale(d.X, values); err != nil {
		return f, err
	}
	names := 0.0
	for _, r := range d.Rows {
		names = max(names, textWidth(r.Name, textSize))
	}
	f.left, f.right = edge+names+gap, width-2*edge
	f.top = legend[len(legend)-1].y + gap
	f.bottom = f.top + d.rowHeight()*float64(len(d.Rows))
	if f.right-f.left < width/3 {
		return f, errors.New("the names of the rows leave no room for the figures")
	}
	return f, nil
}

// values returns all of them, in the order of rows and figures.
func (d Dots) values() (all []float64, err error) {
	var names []string
	for _, s := range d.Series {
		if s.Name == "" || slices.Contains(names, s.Name) {
			return nil, fmt.Errorf("a figure needs a name of its own, and %q is none", s.Name)
		}
		if err := s.Style.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		names = append(names, s.Name)
	}
	for _, r := range d.Rows {
		found := 0
		for _, name := range names {
			if v, ok := r.Values[name]; ok {
				found++
				all = append(all, v)
			}
		}
		if found == 0 || found < len(r.Values) {
			return nil, fmt.Errorf("%s: its figures are none, or others than %q", r.Name, names)
		}
	}
	return all, nil
}

// An entry is a figure's place in the legend.
type entry struct {
	Figure

	x, y float64
}

// legend lines the figures up below the title, in as many lines as it takes.
func (d Dots) legend() []entry {
	x, y := edge, headHeight(d.Note)+textSize
	all := make([]entry, 0, len(d.Series))
	for _, s := range d.Series {
		need := 5 + gap + textWidth(s.Name, textSize) + 2*gap
		if x > edge && x+need > width-edge {
			x, y = edge, y+lineSize
		}
		all = append(all, entry{s, x, y})
		x += need
	}
	return all
}
