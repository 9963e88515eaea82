package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart shows throughput against something, on a logarithmic axis, with a line for each client.
type chart struct {
	title, x string
	series   []series
}

type series struct {
	client string
	points plotter.XYs
}

// add adds a point to the line of a client.
func (c *chart) add(client string, at plotter.XY) {
	i := slices.IndexFunc(c.series, func(s series) bool { return s.client == client })
	if i < 0 {
		i = len(c.series)
		c.series = append(c.series, series{client: client})
	}
	c.series[i].points = append(c.series[i].points, at)
}

// A theme has the colours of a kind of page.
type theme struct{ page, ink color.Color }

var (
	light = theme{color.White, color.Gray{0x1f}}
	dark  = theme{color.RGBA{0x0d, 0x11, 0x17, 0xff}, color.Gray{0xe6}}
)

// svg draws the chart, and the names of the clients below it.
func (c chart) svg(t theme) ([]byte, error) {
	const width, height, line, padding = 420, 300, 14, 4
	if len(c.series) == 0 {
		return nil, errors.New("there are no points")
	}
	p, legend := t.axes(c), plot.NewLegend()
	legend.TextStyle.Color, legend.Left, legend.Top, legend.Padding = t.ink, true, true, padding
	for i, s := range c.series {
		joined, markers, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return nil, err
		}
		joined.Color, joined.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		markers.Color, markers.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(joined, markers)
		legend.Add(s.client, joined, markers)
	}
	var ticks plot.ConstantTicks
	for _, at := range c.series[0].points { // The first client has been in all settings.
		ticks = append(ticks, plot.Tick{Value: at.X, Label: fmt.Sprint(at.X)})
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max, p.Y.Min = p.X.Min/1.1, p.X.Max*1.1, 0 // A single setting has a width, too.
	canvas := vgsvg.New(width, vg.Length(height+line*(len(c.series)+1)))
	whole := draw.New(canvas)
	whole.SetColor(t.page)
	whole.Fill(whole.Path())
	p.Draw(draw.Crop(whole, 0, -line, whole.Max.Y-height, 0))
	legend.Draw(draw.Crop(whole, line, 0, 0, -height))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	// A reader's page has fonts of its own.
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Serif"), []byte("sans-serif")), err
}

// axes returns a plot without lines.
func (t theme) axes(c chart) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = t.page
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, "lock+unlock per second"
	p.Title.TextStyle.Color = t.ink
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Tick.Color, a.Label.TextStyle.Color, a.Tick.Label.Color = t.ink, t.ink, t.ink, t.ink
	}
	p.X.Scale = plot.LogScale{}
	return p
}
