package main

import (
	"encoding/xml"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func drawn(t *testing.T) map[string]string {
	t.Helper()
	all, err := pictures()
	require.NoError(t, err)
	require.Len(t, all, 4)
	return all
}

func TestTheFilesAreThoseThatAreDrawn(t *testing.T) {
	for name, svg := range drawn(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, svg, string(text), "%s: go run ./docs/pictures docs/pictures", name)
	}
}

// A label is a text and where it stands.
type label struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"` // of the baseline
	Size   float64 `xml:"font-size,attr"`
	Anchor string  `xml:"text-anchor,attr"`
	Font   string  `xml:"font-family,attr"`
	Text   string  `xml:",chardata"`
}

// labels are those of a picture, which must be XML.
func labels(t *testing.T, name, svg string) []label {
	t.Helper()
	var picture struct {
		Labels []label `xml:"text"`
	}
	require.NoError(t, xml.Unmarshal([]byte(svg), &picture), name)
	require.Len(t, picture.Labels, 23, name)
	return picture.Labels
}

const width, height = 560, 396

// A box is the area that a text covers.
type box struct{ left, right, top, bottom float64 }

// cover is the area of a label in a font that is wider than most.
func cover(l label) box {
	width := 0.0
	for _, r := range l.Text {
		switch {
		case r >= 0x2e80:
			width += l.Size
		case l.Font == fonts["mono"]:
			width += 0.61 * l.Size
		default:
			width += 0.59 * l.Size
		}
	}
	left := l.X
	switch l.Anchor {
	case "middle":
		left -= width / 2
	case "end":
		left -= width
	}
	return box{left: left, right: left + width, top: l.Y - 0.85*l.Size, bottom: l.Y + 0.25*l.Size}
}

func TestTextsDoNotTouch(t *testing.T) {
	for name, svg := range drawn(t) {
		all := labels(t, name, svg)
		for i, a := range all {
			x := cover(a)
			assert.True(t, x.left >= 0 && x.right <= width && x.top >= 0 && x.bottom <= height, "%s: %q leaves the picture", name, a.Text)
			for _, b := range all[:i] {
				y := cover(b)
				apart := x.right < y.left || y.right < x.left || x.bottom < y.top || y.bottom < x.top
				assert.True(t, apart, "%s: %q and %q overlap", name, a.Text, b.Text)
			}
		}
	}
}

func TestTextsCanBeReadOnAPhone(t *testing.T) {
	for name, svg := range drawn(t) {
		for _, l := range labels(t, name, svg) {
			assert.Greater(t, l.Size*358/width, 9.5, "%s: %q, in pixels where the page is 390 wide", name, l.Text)
		}
	}
}
