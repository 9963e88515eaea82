package plot

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels. A plot has a fixed width, and as much height as it needs.
const (
	width     = 760.0
	edge      = 16.0 // between anything and the border of the picture
	textSize  = 12.0
	titleSize = 16.0
	lineSize  = 16.0 // from one line of text to the next
	gap       = 8.0  // between a text and what it belongs to
	room      = 9.0  // between the frame and the outermost points
)

// A canvas is a picture that is being drawn.
type canvas struct{ strings.Builder }

// begin writes what every picture begins with, its title and the sentence below it.
func begin(height float64, title, note string) *canvas {
	c := &canvas{}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">`+"\n",
		width, math.Ceil(height), width, math.Ceil(height))
	c.add("<title>%s</title>\n<style>%s</style>\n", escape(title), sheet)
	c.add(`<rect class="page" width="%g" height="%g" rx="6"/>`+"\n", width, math.Ceil(height))
	c.text(edge, edge+titleSize-2, "ink title", "start", title)
	if note != "" {
		c.text(edge, edge+titleSize+lineSize, "faint", "start", note)
	}
	return c
}

// add writes an element, or a part of one.
func (c *canvas) add(format string, args ...any) {
	fmt.Fprintf(&c.Builder, format, args...)
}

// end completes the picture.
func (c *canvas) end() []byte {
	c.WriteString("</svg>\n")
	return []byte(c.String())
}

// text writes a text whose start, middle or end is at x.
func (c *canvas) text(x, y float64, class, anchor, text string) {
	c.add(`<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", class, px(x), px(y), anchor, escape(text))
}

// upright writes a text that runs from below to above, its middle at y.
func (c *canvas) upright(x, y float64, class, text string) {
	c.add(`<text class="%s" transform="translate(%s %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		class, px(x), px(y), escape(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.add(`<path class="%s" d="M%s %sL%s %s"/>`+"\n", class, px(x1), px(y1), px(x2), px(y2))
}

func (c *canvas) rect(x, y, w, h float64, class string) {
	c.add(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n", class, px(x), px(y), px(w), px(h))
}

// marker draws the marker of a style.
func (c *canvas) marker(x, y float64, s Style) {
	c.add(`<path class="marker h%d" transform="translate(%s %s)" d="%s"/>`+"\n", s.Hue, px(x), px(y), markers[s.Marker])
}

// polyline joins points in the colour and the dashes of a style: a line, or a sample of one.
func (c *canvas) polyline(points [][2]float64, s Style, class string) {
	var d strings.Builder
	for i, p := range points {
		d.WriteString(map[bool]string{true: "M", false: "L"}[i == 0] + px(p[0]) + " " + px(p[1]))
	}
	dash := ""
	if dashes[s.Dash] != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, dashes[s.Dash])
	}
	c.add(`<path class="h%d %s"%s d="%s"/>`+"\n", s.Hue, class, dash, d.String())
}

// px writes a coordinate: a tenth of a pixel is as good as anybody sees.
func px(v float64) string {
	v = math.Round(v*10) / 10
	if v == 0 {
		return "0" // Not -0.
	}
	return fmt.Sprintf("%g", v)
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // A Builder takes everything.
	return b.String()
}

// textWidth is the width that a text has at most, for it depends on the reader's fonts.
func textWidth(text string, size float64) float64 {
	return 0.62 * size * float64(utf8.RuneCountInString(text))
}
