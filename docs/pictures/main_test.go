package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFilesAreThoseThatAreDrawn(t *testing.T) {
	for name, p := range pictures() {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, p.svg(), string(text), "%s: go run ./docs/pictures docs/pictures", name)
	}
}

func TestThePicturesAreXML(t *testing.T) {
	for name, p := range pictures() {
		d := xml.NewDecoder(strings.NewReader(p.svg()))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
		}
	}
}

// A box is the area that a text covers.
type box struct{ left, right, top, bottom float64 }

// cover is the area of a label in a font that is wider than most.
func cover(l label) box {
	width := 0.0
	for _, r := range l.text {
		switch {
		case r >= 0x2e80:
			width += l.size
		case l.font == mono:
			width += 0.61 * l.size
		default:
			width += 0.59 * l.size
		}
	}
	left := l.x
	switch l.anchor {
	case "middle":
		left -= width / 2
	case "end":
		left -= width
	}
	return box{left: left, right: left + width, top: l.y - 0.85*l.size, bottom: l.y + 0.25*l.size}
}

func TestTextsDoNotTouch(t *testing.T) {
	for name, p := range pictures() {
		for i, a := range p.labels {
			x := cover(a)
			assert.True(t, x.left >= 0 && x.right <= width && x.top >= 0 && x.bottom <= height, "%s: %q leaves the picture", name, a.text)
			for _, b := range p.labels[:i] {
				y := cover(b)
				apart := x.right < y.left || y.right < x.left || x.bottom < y.top || y.bottom < x.top
				assert.True(t, apart, "%s: %q and %q overlap", name, a.text, b.text)
			}
		}
	}
}

func TestTextsCanBeReadOnAPhone(t *testing.T) {
	for name, p := range pictures() {
		for _, l := range p.labels {
			assert.Greater(t, l.size*358/width, 9.5, "%s: %q, in pixels where the page is 390 wide", name, l.text)
		}
	}
}
