package plot

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Style tells a series from the others: by its colour, and for those who do not see
// the difference of two colours by its marker and its dashes.
type Style struct{ Hue, Marker, Dash int }

// A Theme has the colours for one kind of page.
type Theme struct {
	page, ink, faint, grid color.Color
	hues                   [7]color.Color
}

// The hues are after Okabe and Ito: colours that differ for all kinds of colour vision. On a
// light page they are darker, and on a dark one lighter, so that thin lines can be seen. They
// are blue, vermillion, green, purple, ochre, grey and indigo.
var (
	Light = Theme{
		rgb(0xffffff), rgb(0x1f2328), rgb(0x59636e), rgb(0xd8dee4),
		[...]color.Color{rgb(0x0068b5), rgb(0xc84a00), rgb(0x007a58), rgb(0xb0478a), rgb(0x946a00), rgb(0x57606a), rgb(0x4b3fa8)},
	}
	Dark = Theme{
		rgb(0x0d1117), rgb(0xe6edf3), rgb(0x9ba6b1), rgb(0x2a313a),
		[...]color.Color{rgb(0x58b0ff), rgb(0xff8f4d), rgb(0x35cfa2), rgb(0xf19fd0), rgb(0xf0c445), rgb(0xaeb8c2), rgb(0xb3a8ff)},
	}
)

func rgb(c uint32) color.Color {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 255}
}

// dashes are the lengths of strokes and gaps.
var dashes = [...][]vg.Length{nil, {6, 3}, {2, 2}, {8, 2, 2, 2}, {11, 3}}

var markers = [...]draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	thick{draw.RingGlyph{}},
	thick{draw.TriangleGlyph{}},
	thick{draw.SquareGlyph{}},
}

// thick is a hollow marker, whose lines are too thin by themselves.
type thick struct{ draw.GlyphDrawer }

// DrawGlyph implements draw.GlyphDrawer.
func (t thick) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	style.Radius += 0.5
	for range 4 {
		t.GlyphDrawer.DrawGlyph(c, style, at)
		style.Radius -= 0.4
	}
}

func (t Theme) line(s Style) draw.LineStyle {
	return draw.LineStyle{Color: t.hues[s.Hue], Width: 1.5, Dashes: dashes[s.Dash]}
}

func (t Theme) glyph(s Style) draw.GlyphStyle {
	return draw.GlyphStyle{Color: t.hues[s.Hue], Radius: 3.5, Shape: markers[s.Marker]}
}

var (
	plain = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, textSize)
	bold  = font.From(font.Font{Typeface: "Liberation", Variant: "Sans", Weight: xfont.WeightBold}, titleSize)
)

// families are those of a reader's fonts. The first ones have the widths that were measured.
const families = "Liberation Sans,Arial,Helvetica,sans-serif"

func (t Theme) text(c color.Color) text.Style {
	return text.Style{Color: c, Font: plain, Handler: plot.DefaultTextHandler}
}
