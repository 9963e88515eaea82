package plot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes in points, of which 3 are 4 pixels. On a phone a picture is 358 pixels wide: it is not
// much wider than that, so that its texts can be read there.
const (
	width      vg.Length = 420
	edge       vg.Length = 10 // between anything and the border of the picture
	textSize   vg.Length = 12
	titleSize  vg.Length = 14
	lineHeight vg.Length = 16
	gap        vg.Length = 6              // between what stands one below the other
	footHeight           = 3 * lineHeight // of the lower axis
	columns              = 2              // of the legend
)

// A sheet is a picture that is being made: title, note, legend and plot, one below the other.
type sheet struct {
	Theme
	title, note string
	entries     []entry
	plot        *plot.Plot
	height      vg.Length // of the plot without its lower axis
	gap         vg.Length // above the plot
}

// An entry names a series in the legend.
type entry struct {
	name   string
	thumbs []plot.Thumbnailer
}

func newSheet(t Theme, title, note string, height vg.Length) *sheet {
	p := plot.New()
	p.BackgroundColor = nil
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = t.grid, t.grid
	grid.Horizontal.Width, grid.Vertical.Width = 0.75, 0.75
	p.Add(grid)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Width, a.Tick.Length = 0, 0
		a.Padding, a.Label.Padding = 8, 3
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = plain, t.ink
		a.Tick.Label.Font, a.Tick.Label.Color = plain, t.faint
	}
	return &sheet{Theme: t, title: title, note: note, plot: p, height: height, gap: gap}
}

// svg draws everything, from above to below, unless there was an error.
func (s *sheet) svg(err error) ([]byte, error) {
	title, note := s.text(s.ink), s.text(s.faint)
	title.Font = bold
	title.YAlign, note.YAlign = draw.YTop, draw.YTop
	if s.title == "" {
		err = errors.Join(err, errors.New("there is no title"))
	}
	err = errors.Join(err, fits(title, s.title, width-2*edge), fits(note, s.note, width-2*edge))
	notes := slices.Collect(strings.Lines(s.note))
	entries := (len(s.entries) + columns - 1) / columns
	head := edge + titleSize + gap + lineHeight*vg.Length(len(notes)+entries) + gap + s.gap
	canvas := vgsvg.New(width, head+s.height+footHeight)
	c := draw.New(canvas)
	c.SetColor(s.page)
	c.Fill(c.Path())

	c = draw.Crop(c, edge, -edge, gap, -edge)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, s.title)
	c.Max.Y -= titleSize + gap
	for _, line := range notes {
		c.FillText(note, vg.Point{X: c.Min.X, Y: c.Max.Y}, strings.TrimSpace(line))
		c.Max.Y -= lineHeight
	}
	c.Max.Y -= gap
	if err = errors.Join(err, s.legend(c, entries)); err != nil {
		return nil, fmt.Errorf("plot %q: %w", s.title, err)
	}
	c.Max.Y -= lineHeight*vg.Length(entries) + s.gap
	s.plot.Draw(c)
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:"+families)), err
}

// legend draws the legend, with so many entries in each column.
func (s *sheet) legend(c draw.Canvas, entries int) (err error) {
	const sample, column = 26, (width - 2*edge) / columns
	style := s.text(s.ink)
	for part := range slices.Chunk(s.entries, entries) {
		legend := plot.NewLegend()
		legend.Top, legend.Left, legend.TextStyle, legend.ThumbnailWidth = true, true, style, sample
		for _, e := range part {
			legend.Add(e.name, e.thumbs...)
			err = errors.Join(err, fits(style, e.name, column-sample-gap))
		}
		legend.Padding = lineHeight - style.Rectangle(part[0].name).Max.Y
		legend.Draw(c)
		c.Min.X += column
	}
	return err
}

// fits reports a text that has a line that is too long, even if the reader's font is wider.
func fits(style text.Style, text string, width vg.Length) error {
	if 1.15*style.Width(text) > width {
		return fmt.Errorf("%q is too long", text)
	}
	return nil
}
