// Package plot draws the plots of the benchmarks as SVG: small files that can be read on
// light and on dark pages, and without colour.
//
// It is by hand since plotting libraries for Go draw for one background only. The same
// data give the same bytes.
package plot

import (
	"errors"
	"fmt"
)

// A Chart is something that can be drawn.
type Chart interface {
	// SVG returns the picture. An error says which value cannot be drawn.
	SVG() ([]byte, error)
}

// headHeight is the height of the title and of the note below it.
func headHeight(note string) float64 {
	if note == "" {
		return edge + titleSize + gap
	}
	return edge + titleSize + lineSize + gap
}

// checkHead reports a title that is missing, or a text that the picture is too narrow for.
func checkHead(title, note string) error {
	switch {
	case title == "":
		return errors.New("there is no title")
	case textWidth(title, titleSize) > width-2*edge:
		return fmt.Errorf("the title %q is too long", title)
	case textWidth(note, textSize) > width-2*edge:
		return fmt.Errorf("the note %q is too long", note)
	}
	return nil
}

// A frame is the rectangle that points are drawn in, with a scale along its lower side.
type frame struct {
	left, right, top, bottom float64
	x                        scale
}

func (f frame) xAt(v float64) float64 {
	return f.left + room + f.x.at(v)*(f.right-f.left-2*room)
}

// drawX draws the frame, the lower axis and its grid.
func (f frame) drawX(c *canvas, a Axis) {
	for _, t := range f.x.ticks {
		x := f.xAt(t)
		c.line(x, f.top, x, f.bottom, "grid")
		c.text(x, f.bottom+lineSize, "faint tick", "middle", number(t))
	}
	c.rect(f.left, f.top, f.right-f.left, f.bottom-f.top, "axis")
	c.text((f.left+f.right)/2, f.bottom+2*lineSize+2, "ink", "middle", a.text())
}

// footHeight is the height of the lower axis' texts.
const footHeight = 2*lineSize + gap + edge
