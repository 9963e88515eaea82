package plot

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures in testdata")

// charts are examples of both kinds, with what is hard to draw: lines that end at nearly
// the same place, long names, equal values, a row that lacks a figure.
func charts() map[string]Chart {
	sweep := Lines{
		Title: "Lock+unlock per second on 5 nodes", Note: "Median of the rounds; more is better",
		X: Axis{Label: "goroutines", Log: true}, Y: Axis{Label: "throughput", Unit: "op/s", Log: true},
	}
	for i := range Hues {
		l := Line{Name: fmt.Sprintf("library number %d", i+1), Style: StyleOf(i)}
		for n := 1; n <= 4096>>i; n *= 4 {
			l.X, l.Y = append(l.X, float64(n)), append(l.Y, 40_000/(1+float64(i*i)/20)*(1-1/float64(n+1)))
		}
		sweep.Series = append(sweep.Series, l)
	}
	degraded := Lines{
		Title: "2 of 5 nodes fail", Note: "Lock+unlock of redlock, 8 callers, every 260ms; less is better, and nothing at all would be best",
		Event: &Event{At: 0, Name: "the nodes fail"},
		X:     Axis{Label: "time after the fault", Unit: "s"}, Y: Axis{Label: "latency", Unit: "µs", Zero: true},
	}
	for i, name := range []string{"p50", "p99"} {
		l := Line{Name: name, Style: Style{Marker: i, Dash: i}}
		for n := -50; n < 80; n++ {
			l.X, l.Y = append(l.X, float64(n)/10), append(l.Y, float64(300*(i+1)+n*n%37))
		}
		degraded.Series = append(degraded.Series, l)
	}
	hands := Dots{
		Title: "Hand-overs of one lock per second", X: Axis{Label: "hand-overs", Unit: "1/s", Log: true},
		Series: []Figure{{"redlock", StyleOf(0)}, {"redsync", StyleOf(1)}},
		Rows: []Row{
			{"4 × 4, 1ms", map[string]float64{"redlock": 551, "redsync": 21}},
			{"1 × 16, 1ms", map[string]float64{"redlock": 49, "redsync": 49}},
			{"32 × 1, 1ms", map[string]float64{"redlock": 521}},
		},
	}
	percentiles := Dots{
		Title: "Latency of one caller <&\"'>", X: Axis{Label: "latency", Unit: "µs", Zero: true}, Joined: true,
		Series: []Figure{{"p50", StyleOf(0)}, {"p99", StyleOf(1)}},
		Rows:   []Row{{"redlock", map[string]float64{"p50": 82, "p99": 186}}, {"redsync", map[string]float64{"p50": 122, "p99": 231}}},
	}
	one := Lines{
		Title: "One point", X: Axis{Label: "goroutines", Log: true}, Y: Axis{Label: "throughput", Unit: "op/s"},
		Series: []Line{{Name: "alone", X: []float64{64}, Y: []float64{45_123}}},
	}
	return map[string]Chart{"sweep": sweep, "degraded": degraded, "hands": hands, "percentiles": percentiles, "one": one}
}

// TestPictures compares the pictures with those that somebody has looked at. After a
// change that is meant: go test ./plot -update, and look at them.
func TestPictures(t *testing.T) {
	for name, chart := range charts() {
		t.Run(name, func(t *testing.T) {
			got, err := chart.SVG()
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := chart.SVG(); !bytes.Equal(got, again) {
				t.Error("the same data give another picture")
			}
			file := filepath.Join("testdata", name+".svg")
			if *update {
				if err = os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("not as in %s:\n%s", file, got)
			}
		})
	}
}

// TestNothingIsOutsideOrCovered looks at where things are in each picture.
func TestNothingIsOutsideOrCovered(t *testing.T) {
	for name, chart := range charts() {
		t.Run(name, func(t *testing.T) {
			svg, err := chart.SVG()
			if err != nil {
				t.Fatal(err)
			}
			p := parsePicture(t, svg)
			if p.frame == (box{}) || len(p.markers) == 0 && len(p.vertices) == 0 {
				t.Fatalf("a picture without a frame or without points:\n%s", svg)
			}
			for _, v := range p.vertices {
				if !p.frame.holds(box{v[0] - 4, v[1] - 4, v[0] + 4, v[1] + 4}) { // As a marker, more or less.
					t.Errorf("the point %v is outside of the frame %v", v, p.frame)
				}
			}
			for i, a := range p.texts {
				if !p.page.holds(a.box) {
					t.Errorf("%q is outside of the page", a.text)
				}
				for _, b := range p.texts[:i] {
					if a.overlaps(b.box) {
						t.Errorf("%q and %q touch each other", a.text, b.text)
					}
				}
			}
		})
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	line := func(x, y []float64) Chart {
		return Lines{Title: "t", X: Axis{Label: "x", Log: true}, Y: Axis{Label: "y"}, Series: []Line{{Name: "a", X: x, Y: y}}}
	}
	row := func(values map[string]float64) Chart {
		return Dots{Title: "t", X: Axis{Label: "x"}, Series: []Figure{{Name: "a"}}, Rows: []Row{{"r", values}}}
	}
	one := []float64{1}
	for want, chart := range map[string]Chart{
		`plot "t": there are no points`:                           Lines{Title: "t"},
		`plot "t": a: there are no points`:                        line(nil, nil),
		`plot "t": a: 1 values of x, and 2 of y`:                  line(one, []float64{1, 2}),
		`plot "t": y: NaN cannot be drawn`:                        line(one, []float64{math.NaN()}),
		`plot "t": y: +Inf cannot be drawn`:                       line(one, []float64{math.Inf(1)}),
		`plot "t": x: 0 has no place on a logarithmic axis`:       line([]float64{0}, one),
		`plot "": there is no title`:                              Lines{},
		`too long`:                                                Lines{Title: strings.Repeat("x", 100)},
		`leave no room for the lines`:                             Lines{Title: "t", Series: []Line{{Name: strings.Repeat("x", 99), X: one, Y: one}}},
		`a series needs a name of its own, and "a" is none`:       Lines{Title: "t", Series: []Line{{Name: "a", X: one, Y: one}, {Name: "a", X: one, Y: one}}},
		`a: there is no style {Hue:7 Marker:0 Dash:0}`:            Lines{Title: "t", Series: []Line{{Name: "a", X: one, Y: one, Style: Style{Hue: Hues}}}},
		`plot "u": there are no points`:                           Dots{Title: "u"},
		`plot "v": there are no points`:                           Dots{Title: "v", Series: []Figure{{Name: "a"}}},
		`plot "t": r: its figures are none, or others than ["a"]`: row(nil),
		`r: its figures are none, or others than ["a"]`:           row(map[string]float64{"a": 1, "b": 2}),
		`plot "t": x: NaN cannot be drawn`:                        row(map[string]float64{"a": math.NaN()}),
		`a figure needs a name of its own, and "" is none`:        Dots{Title: "t", Series: []Figure{{}}},
		`leave no room for the figures`:                           Dots{Title: "t", Series: []Figure{{Name: "a"}}, Rows: []Row{{strings.Repeat("x", 99), map[string]float64{"a": 1}}}},
	} {
		svg, err := chart.SVG()
		if err == nil || !strings.Contains(err.Error(), want) || svg != nil {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		axis   Axis
		values []float64
		want   []float64
	}{
		{Axis{Zero: true}, []float64{45_123, 8_102}, []float64{0, 10_000, 20_000, 30_000, 40_000, 50_000}},
		{Axis{Zero: true}, []float64{0.7, 1}, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{Axis{}, []float64{-5, 8}, []float64{-6, -4, -2, 0, 2, 4, 6, 8}},
		{Axis{}, []float64{0.04, 79.96}, []float64{0, 20, 40, 60, 80}},
		{Axis{}, []float64{7}, []float64{2, 4, 6, 8, 10, 12}},
		{Axis{}, []float64{0}, []float64{-1, -0.5, 0, 0.5, 1}},
		{Axis{Log: true}, []float64{1, 8, 64}, []float64{1, 2, 4, 8, 16, 32, 64}},
		{Axis{Log: true}, []float64{1, 16, 4096}, []float64{1, 4, 16, 64, 256, 1024, 4096}},
		{Axis{Log: true}, []float64{64}, []float64{32, 64, 128}},
		{Axis{Log: true}, []float64{21, 551}, []float64{20, 50, 100, 200, 500, 1000}},
		{Axis{Log: true}, []float64{64, 16_000}, []float64{100, 1000, 10_000}},
		{Axis{Ticks: []float64{1, 3, 5}}, []float64{5, 1}, []float64{1, 3, 5}},
		{Axis{Ticks: []float64{4}}, []float64{4}, []float64{2, 3, 4, 5, 6}},
		{Axis{Log: true}, []float64{0.003, 0.003}, []float64{0.002, 0.005}},
	} {
		s, err := newScale(tt.axis, tt.values)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.ticks, tt.want) {
			t.Errorf("%+v, %v: ticks %v, want %v", tt.axis, tt.values, s.ticks, tt.want)
		}
		for _, v := range append(slices.Clone(tt.values), s.ticks...) {
			if at := s.at(v); at < -1e-9 || at > 1+1e-9 {
				t.Errorf("%+v, %v: %v is at %v", tt.axis, tt.values, v, at)
			}
		}
	}
}

// FuzzTicks: whatever the values, an axis has some ticks, not too many, and all values.
func FuzzTicks(f *testing.F) {
	f.Add(1.0, 2.0, false)
	f.Add(-3.5, 1e9, false)
	f.Add(1e-7, 1e7, true)
	f.Fuzz(func(t *testing.T, a, b float64, log bool) {
		for _, v := range []float64{a, b} {
			if !(math.Abs(v) < 1e15) || v != 0 && math.Abs(v) < 1e-15 || math.Abs(a-b) < 1e-9*math.Abs(a) {
				t.Skip()
			}
		}
		if log && min(a, b) <= 0 {
			t.Skip()
		}
		s, err := newScale(Axis{Log: log}, []float64{a, b})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.ticks); n < 2 || n > maxTicks {
			t.Errorf("%v, %v, %t: ticks %v", a, b, log, s.ticks)
		}
		for _, v := range []float64{a, b} {
			if at := s.at(v); !(at > -1e-6 && at < 1+1e-6) {
				t.Errorf("%v, %v, %t: %v is at %v", a, b, log, v, at)
			}
		}
	})
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", 4096: "4 096", 1234567: "1 234 567", 0.3: "0.3", -2.5: "−2.5", -1000: "−1 000", 0.001: "0.001",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct{ places, want []float64 }{
		{nil, nil},
		{[]float64{50}, []float64{50}},
		{[]float64{90, 10}, []float64{90, 10}},
		{[]float64{50, 50, 50}, []float64{50, 60, 70}},
		{[]float64{100, 99, 98}, []float64{100, 90, 80}},
		{[]float64{-5, 0}, []float64{0, 10}},
	} {
		if got := spread(tt.places, 10, 0, 100); !slices.Equal(got, tt.want) {
			t.Errorf("spread(%v) = %v, want %v", tt.places, got, tt.want)
		}
	}
}
