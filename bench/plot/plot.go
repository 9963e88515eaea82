// Package plot draws the plots of the benchmarks with gonum/plot, each for light and for dark
// pages. They can be read without colour, and on a phone. The same data give the same bytes.
package plot

import (
	"errors"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Chart is something that can be drawn.
type Chart interface {
	// SVG returns the picture. An error says what cannot be drawn.
	SVG(Theme) ([]byte, error)
}

// An Axis says what is measured along one side.
type Axis struct {
	Label string    // with the unit, as in "throughput (op/s)"
	Log   bool      // logarithmic: all values must be above 0
	Zero  bool      // a linear axis that begins at 0
	Ticks []float64 // where the ticks are; without them they are at round numbers
}

// Lines is a chart of y against x, with a line for each series.
type Lines struct {
	Title  string
	Note   string // lines below the title, or nothing
	X, Y   Axis
	Series []Line
	Event  *Event // what happens at some x, or nil
}

// A Line is one series. Its points are joined in their order.
type Line struct {
	Name  string
	Style Style
	X, Y  []float64
}

// An Event is marked by an upright rule.
type Event struct {
	At   float64
	Name string
}

// maxMarkers is the number of points above which a line has no markers: they would cover it.
const maxMarkers = 20

// SVG implements Chart.
func (l Lines) SVG(t Theme) ([]byte, error) {
	if len(l.Series) == 0 {
		return nil, fmt.Errorf("plot %q: there are no points", l.Title)
	}
	s := newSheet(t, l.Title, l.Note, 220)
	for _, line := range l.Series {
		points, err := pairs(line.X, line.Y)
		if err != nil {
			return nil, fmt.Errorf("plot %q: %s: %w", l.Title, line.Name, err)
		}
		joined := &plotter.Line{XYs: points, LineStyle: t.line(line.Style)}
		thumbs := []plot.Thumbnailer{joined}
		s.plot.Add(joined)
		if len(points) <= maxMarkers {
			markers := &plotter.Scatter{XYs: points, GlyphStyle: t.glyph(line.Style)}
			s.plot.Add(markers)
			thumbs = append(thumbs, markers)
		}
		s.entries = append(s.entries, entry{line.Name, thumbs})
	}
	if l.Event != nil {
		s.plot.Add(mark{*l.Event, t})
		s.plot.X.Min, s.plot.X.Max = min(s.plot.X.Min, l.Event.At), max(s.plot.X.Max, l.Event.At)
		s.gap += lineHeight
	}
	return s.svg(errors.Join(l.X.set(&s.plot.X), l.Y.set(&s.plot.Y)))
}

// pairs returns the points of a line.
func pairs(xs, ys []float64) (plotter.XYs, error) {
	if len(xs) != len(ys) || len(xs) == 0 {
		return nil, fmt.Errorf("%d values of x, and %d of y", len(xs), len(ys))
	}
	points := make(plotter.XYs, len(xs))
	for i := range xs {
		points[i] = plotter.XY{X: xs[i], Y: ys[i]}
	}
	return plotter.CopyXYs(points) // It refuses what cannot be drawn.
}

// A mark draws an event.
type mark struct {
	Event
	Theme
}

// Plot implements plot.Plotter.
func (m mark) Plot(c draw.Canvas, p *plot.Plot) {
	x := c.X(p.X.Norm(m.At))
	style := draw.LineStyle{Color: m.faint, Width: 1, Dashes: dashes[2]}
	c.StrokeLine2(style, x, c.Min.Y, x, c.Max.Y+4)
	text := m.text(m.faint)
	text.XAlign = draw.XCenter
	c.FillText(text, vg.Point{X: x, Y: c.Max.Y + 7}, m.Name)
}

// Dots is a chart of figures for several things: a row for each, in it a marker for each figure.
type Dots struct {
	Title  string
	Note   string // lines below the title, or nothing
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

// rowHeight is the height of each row.
const rowHeight = 20

// SVG implements Chart.
func (d Dots) SVG(t Theme) ([]byte, error) {
	if len(d.Rows) == 0 {
		return nil, fmt.Errorf("plot %q: there are no points", d.Title)
	}
	s := newSheet(t, d.Title, d.Note, rowHeight*vg.Length(len(d.Rows)))
	names := make([]string, len(d.Rows))
	for i, r := range d.Rows {
		names[len(names)-1-i] = r.Name
	}
	dots := make([]plotter.XYs, len(d.Series))
	for i, r := range d.Rows {
		var row plotter.XYs
		for j, f := range d.Series {
			if v, ok := r.Values[f.Name]; ok {
				at := plotter.XY{X: v, Y: float64(len(d.Rows) - 1 - i)}
				row, dots[j] = append(row, at), append(dots[j], at)
			}
		}
		if len(row) == 0 || len(row) < len(r.Values) {
			return nil, fmt.Errorf("plot %q: %s: its figures are none, or others than those of the chart", d.Title, r.Name)
		}
		if d.Joined {
			s.plot.Add(&plotter.Line{XYs: row, LineStyle: draw.LineStyle{Color: t.faint, Width: 1}})
		}
	}
	for i, f := range d.Series {
		if _, err := plotter.CopyXYs(dots[i]); err != nil {
			return nil, fmt.Errorf("plot %q: %s: %w", d.Title, f.Name, err)
		}
		markers := &plotter.Scatter{XYs: dots[i], GlyphStyle: t.glyph(f.Style)}
		s.plot.Add(markers)
		s.entries = append(s.entries, entry{f.Name, []plot.Thumbnailer{markers}})
	}
	s.plot.NominalY(names...)
	s.plot.Y.Padding = 12
	s.plot.Y.Min, s.plot.Y.Max = -0.5, float64(len(d.Rows))-0.5
	return s.svg(d.X.set(&s.plot.X))
}
