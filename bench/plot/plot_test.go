package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

// charts are examples of both kinds, with what is hard to draw: equal values, a single
// point, a row that lacks a figure.
func charts() map[string]Chart {
	sweep := Lines{
		Title: "Lock+unlock per second on 5 nodes", Note: "Median of the rounds.\nMore is better.",
		X: Axis{Label: "goroutines", Log: true, Ticks: []float64{1, 64, 4096}}, Y: Axis{Label: "throughput (op/s)", Log: true},
		Series: []Line{
			{Name: "redlock", X: []float64{1, 64, 4096}, Y: []float64{6_387, 42_984, 51_187}},
			{Name: "redsync-goredis-failfast", Style: Style{6, 5, 4}, X: []float64{1, 64, 4096}, Y: []float64{6_387, 8_208, 7_335}},
			{Name: "alone", Style: Style{1, 1, 1}, X: []float64{64}, Y: []float64{45_123}},
		},
	}
	degraded := Lines{
		Title: "2 of 5 nodes fail", Event: &Event{Name: "the nodes fail"},
		X: Axis{Label: "time after the fault (s)"}, Y: Axis{Label: "latency (µs)", Zero: true},
		Series: []Line{{Name: "p99"}},
	}
	for n := range 100 {
		l := &degraded.Series[0]
		l.X, l.Y = append(l.X, float64(n+1)/10), append(l.Y, float64(n*n%37))
	}
	percentiles := Dots{
		Title: "Latency <&\"'>", X: Axis{Label: "latency (µs)", Zero: true}, Joined: true,
		Series: []Figure{{Name: "p50"}, {Name: "p99", Style: Style{1, 1, 1}}},
		Rows:   []Row{{"redlock", map[string]float64{"p50": 82, "p99": 186}}, {"redsync", map[string]float64{"p50": 122}}},
	}
	one := Lines{
		Title: "One point", X: Axis{Label: "goroutines", Log: true}, Y: Axis{Label: "op/s"},
		Series: []Line{{Name: "alone", X: []float64{1}, Y: []float64{45_123}}},
	}
	return map[string]Chart{"sweep": sweep, "degraded": degraded, "percentiles": percentiles, "one": one}
}

var sizeRE = regexp.MustCompile(`font-size:([0-9.]+)px`)

// TestPictures: they are XML and the same each time, and their texts can be read on a phone.
func TestPictures(t *testing.T) {
	for name, chart := range charts() {
		light, err := chart.SVG(Light)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, _ := chart.SVG(Light); !bytes.Equal(light, again) {
			t.Errorf("%s: the same data give another picture", name)
		}
		if dark, e := chart.SVG(Dark); e != nil || bytes.Equal(light, dark) {
			t.Errorf("%s: %v, or the same for dark pages", name, e)
		}
		for d := xml.NewDecoder(bytes.NewReader(light)); err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		for _, size := range sizeRE.FindAllStringSubmatch(string(light), -1) {
			if px, err := strconv.ParseFloat(size[1], 64); err != nil || px*358/width.Points() < 9.5 {
				t.Errorf("%s: a text of %s, %v", name, size[1], err)
			}
		}
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	line := func(x, y float64) Line { return Line{Name: "a", X: []float64{x}, Y: []float64{y}} }
	row := func(values map[string]float64) Chart {
		return Dots{Title: "v", Series: []Figure{{Name: "a"}}, Rows: []Row{{"r", values}}}
	}
	long := strings.Repeat("x", 80)
	for want, chart := range map[string]Chart{
		`plot "t": there are no points`:          Lines{Title: "t"},
		`plot "u": there are no points`:          Dots{Title: "u"},
		`plot "t": a: 0 values of x, and 0 of y`: Lines{Title: "t", Series: []Line{{Name: "a"}}},
		`plot "t": a: 1 values of x, and 2 of y`: Lines{Title: "t", Series: []Line{{Name: "a", X: []float64{1}, Y: []float64{1, 2}}}},
		`NaN`:                                    Lines{Title: "t", Series: []Line{line(1, math.NaN())}},
		`nfinit`:                                 Lines{Title: "t", Series: []Line{line(1, math.Inf(1))}},
		`plot "t": x: 0 has no place on a logarithmic axis`: Lines{Title: "t", X: Axis{Label: "x", Log: true}, Series: []Line{line(0, 1)}},
		`there is no title`:                             Lines{Series: []Line{line(1, 1)}},
		`"` + long + `" is too long`:                    Lines{Title: long, Series: []Line{line(1, 1)}},
		`"` + long + `x" is too long`:                   Lines{Title: "t", Note: "n\n" + long + "x", Series: []Line{line(1, 1)}},
		`"` + long + `y" is too long`:                   Lines{Title: "t", Series: []Line{{Name: long + "y", X: []float64{1}, Y: []float64{1}}}},
		`plot "v": r: its figures are none, or others`:  row(nil),
		`r: its figures are none, or others than those`: row(map[string]float64{"a": 1, "b": 2}),
		`plot "v": a: plotter: NaN`:                     row(map[string]float64{"a": math.NaN()}),
	} {
		svg, err := chart.SVG(Light)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `n\n`, ""), want) || svg != nil {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestAxes: whatever the values, an axis has a few ticks, and all values have a place on it.
func TestAxes(t *testing.T) {
	for _, tt := range []struct {
		axis     Axis
		from, to float64
		want     []string
	}{
		{Axis{Zero: true}, 8_102, 45_123, []string{"0", "20 000", "40 000"}},
		{Axis{Zero: true}, 0.7, 1, []string{"0", "0.5", "1"}},
		{Axis{}, -5, 8, []string{"−4", "0", "4", "8"}},
		{Axis{Ticks: []float64{1, 3, 5}}, 1, 5, []string{"1", "3", "5"}},
		{Axis{Log: true, Ticks: []float64{1, 64, 4096}}, 1, 4096, []string{"1", "64", "4 096"}},
		{Axis{Log: true}, 64, 64, []string{"20", "50", "100", "200"}},
		{Axis{Log: true}, 3_604, 86_282, []string{"2 000", "5 000", "10 000", "20 000", "50 000", "100 000"}},
		{Axis{Log: true}, 10, 6_948, []string{"10", "100", "1 000", "10 000"}},
		{Axis{Log: true}, 0.003, 0.004, []string{"0.002", "0.005"}},
	} {
		a := plot.New().X
		a.Min, a.Max = tt.from, tt.to
		if err := tt.axis.set(&a); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tick := range a.Tick.Marker.Ticks(a.Min, a.Max) {
			if tick.Value >= a.Min && tick.Value <= a.Max {
				got = append(got, tick.Label)
			}
		}
		if !slices.Equal(got, tt.want) || a.Min > tt.from || a.Max < tt.to {
			t.Errorf("%+v, %v to %v: from %v to %v with ticks %q, want %q", tt.axis, tt.from, tt.to, a.Min, a.Max, got, tt.want)
		}
	}
}
