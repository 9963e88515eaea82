package plot

import (
	"errors"
	"fmt"
	"slices"
)

// Lines is a chart of y against x, with a line for each series. The name of each stands
// at the end of its line.
type Lines struct {
	Title  string
	Note   string // a sentence below the title, or nothing
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

const (
	// linesHeight is the least height of the frame.
	linesHeight = 300.0

	// maxMarkers is the number of points above which a line has no markers: they would
	// cover it.
	maxMarkers = 20

	// sampleWidth is the length of a line beside its name, where it has no markers to be known by.
	sampleWidth = 26.0
)

// hasMarkers reports whether the points of a series are marked.
func (l Line) hasMarkers() bool { return len(l.X) <= maxMarkers }

// sample is the room for samples of lines before the names.
func (l Lines) sample() float64 {
	if slices.ContainsFunc(l.Series, func(s Line) bool { return !s.hasMarkers() }) {
		return sampleWidth
	}
	return 0
}

// SVG implements Chart.
func (l Lines) SVG() ([]byte, error) {
	f, y, err := l.layOut()
	if err != nil {
		return nil, fmt.Errorf("plot %q: %w", l.Title, err)
	}
	c := begin(f.bottom+footHeight, l.Title, l.Note)
	f.drawX(c, l.X)
	yAt := func(v float64) float64 { return f.bottom - room - y.at(v)*(f.bottom-f.top-2*room) }
	for _, t := range y.ticks {
		c.line(f.left, yAt(t), f.right, yAt(t), "grid")
		c.text(f.left-gap, yAt(t)+4, "faint tick", "end", number(t))
	}
	c.upright(edge+textSize-2, (f.top+f.bottom)/2, "ink", l.Y.text())
	if l.Event != nil {
		x := f.xAt(l.Event.At)
		c.line(x, f.top, x, f.bottom, "rule")
		c.text(x, f.top-5, "faint", "middle", l.Event.Name)
	}
	l.draw(c, f, yAt)
	return c.end(), nil
}

// layOut checks the chart and returns where everything is.
func (l Lines) layOut() (f frame, y scale, err error) {
	if err = checkHead(l.Title, l.Note); err != nil {
		return f, y, err
	}
	xs, ys, err := l.values()
	if err != nil {
		return f, y, err
	}
	if l.Event != nil {
		xs = append(xs, l.Event.At)
	}
	if f.x, err = newScale(l.X, xs); err != nil {
		return f, y, err
	}
	if y, err = newScale(l.Y, ys); err != nil {
		return f, y, err
	}
	names, ticks := 0.0, 0.0
	for _, s := range l.Series {
		names = max(names, textWidth(s.Name, textSize))
	}
	for _, t := range y.ticks {
		ticks = max(ticks, textWidth(number(t), textSize))
	}
	f.left = edge + textSize + gap + ticks + gap
	f.right = width - edge - names - 3*gap - l.sample()
	f.top = headHeight(l.Note)
	if l.Event != nil {
		f.top += lineSize
	}
	f.bottom = f.top + max(linesHeight, lineSize*float64(len(l.Series)))
	if f.right-f.left < width/3 {
		return f, y, errors.New("the names of the series leave no room for the lines")
	}
	return f, y, nil
}

// values returns the coordinates of all points.
func (l Lines) values() (xs, ys []float64, err error) {
	var names []string
	for _, s := range l.Series {
		switch {
		case len(s.X) != len(s.Y):
			return nil, nil, fmt.Errorf("%s: %d values of x, and %d of y", s.Name, len(s.X), len(s.Y))
		case len(s.X) == 0:
			return nil, nil, fmt.Errorf("%s: there are no points", s.Name)
		case s.Name == "" || slices.Contains(names, s.Name):
			return nil, nil, fmt.Errorf("a series needs a name of its own, and %q is none", s.Name)
		}
		if err := s.Style.check(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		names = append(names, s.Name)
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	return xs, ys, nil
}

// draw draws the series. The first one is drawn last, so that no other one covers it.
func (l Lines) draw(c *canvas, f frame, yAt func(float64) float64) {
	ends := make([]float64, len(l.Series))
	for i, s := range l.Series {
		ends[i] = yAt(s.Y[len(s.Y)-1])
	}
	labels := spread(ends, lineSize, f.top+lineSize/2, f.bottom-lineSize/2)
	for i, s := range slices.Backward(l.Series) {
		points := make([][2]float64, len(s.X))
		for j := range s.X {
			points[j] = [2]float64{f.xAt(s.X[j]), yAt(s.Y[j])}
		}
		last := points[len(points)-1]
		c.line(last[0]+5, last[1], f.right+gap, labels[i], fmt.Sprintf("lead h%d", s.Style.Hue))
		c.polyline(points, s.Style, "line")
		if s.hasMarkers() {
			for _, p := range points {
				c.marker(p[0], p[1], s.Style)
			}
			c.marker(f.right+gap+3+l.sample()/2, labels[i], s.Style)
		} else {
			c.polyline([][2]float64{{f.right + gap, labels[i]}, {f.right + gap + sampleWidth, labels[i]}}, s.Style, "line sample")
		}
		c.text(f.right+2*gap+4+l.sample(), labels[i]+4, fmt.Sprintf("name h%d", s.Style.Hue), "start", s.Name)
	}
}

// spread moves places apart, as little as it takes, until there is a distance between
// any two, all between from and to. Their order stays.
func spread(places []float64, distance, from, to float64) []float64 {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case places[a] < places[b]:
			return -1
		case places[a] > places[b]:
			return 1
		}
		return 0
	})
	moved := slices.Clone(places)
	next := from
	for _, i := range order {
		moved[i] = max(moved[i], next)
		next = moved[i] + distance
	}
	last := to
	for _, i := range slices.Backward(order) {
		moved[i] = min(moved[i], last)
		last = moved[i] - distance
	}
	return moved
}
