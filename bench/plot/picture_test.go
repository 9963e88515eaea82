package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// A box is a rectangle.
type box struct{ left, top, right, bottom float64 }

func (b box) holds(o box) bool {
	return o.left >= b.left && o.right <= b.right && o.top >= b.top && o.bottom <= b.bottom
}

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// A picture is what the tests need to know of one.
type picture struct {
	page, frame box
	vertices    [][2]float64 // of lines, and the middles of markers in the frame
	markers     [][2]float64
	texts       []placedText
}

type placedText struct {
	box

	text string
}

// parsePicture reads a picture, and fails if it is no XML.
func parsePicture(t *testing.T, svg []byte) (p picture) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var open xml.StartElement
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = token.Copy()
			p.shape(t, open)
		case xml.CharData:
			if open.Name.Local == "text" {
				p.text(t, open, string(token))
			}
			open = xml.StartElement{}
		}
	}
	for _, m := range p.markers { // Those beside the frame are the legend's.
		if m[0] > p.frame.left && m[0] < p.frame.right && m[1] >= p.frame.top {
			p.vertices = append(p.vertices, m)
		}
	}
	return p
}

func (p *picture) shape(t *testing.T, e xml.StartElement) {
	t.Helper()
	class := attribute(e, "class")
	switch {
	case e.Name.Local == "svg":
		p.page = box{0, 0, float(t, attribute(e, "width")), float(t, attribute(e, "height"))}
	case class == "axis":
		x, y := float(t, attribute(e, "x")), float(t, attribute(e, "y"))
		p.frame = box{x, y, x + float(t, attribute(e, "width")), y + float(t, attribute(e, "height"))}
	case strings.HasPrefix(class, "marker"):
		p.markers = append(p.markers, moved(t, attribute(e, "transform")))
	case strings.HasSuffix(class, " line"):
		for _, xy := range strings.Split(strings.TrimPrefix(attribute(e, "d"), "M"), "L") {
			p.vertices = append(p.vertices, pair(t, xy))
		}
	}
}

func (p *picture) text(t *testing.T, e xml.StartElement, text string) {
	t.Helper()
	size := textSize
	if strings.Contains(attribute(e, "class"), "title") {
		size = titleSize
	}
	w := textWidth(text, size)
	if move, found := strings.CutSuffix(attribute(e, "transform"), " rotate(-90)"); found {
		at := moved(t, move)
		p.texts = append(p.texts, placedText{box{at[0] - size, at[1] - w/2, at[0], at[1] + w/2}, text})
		return
	}
	x, y := float(t, attribute(e, "x")), float(t, attribute(e, "y"))
	x -= map[string]float64{"start": 0, "middle": w / 2, "end": w}[attribute(e, "text-anchor")]
	p.texts = append(p.texts, placedText{box{x, y - size, x + w, y}, text})
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// moved reads where translate(x y) moves something.
func moved(t *testing.T, transform string) [2]float64 {
	t.Helper()
	return pair(t, strings.TrimSuffix(strings.TrimPrefix(transform, "translate("), ")"))
}

func pair(t *testing.T, text string) [2]float64 {
	t.Helper()
	x, y, _ := strings.Cut(text, " ")
	return [2]float64{float(t, x), float(t, y)}
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
