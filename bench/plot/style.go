package plot

import (
	"fmt"
	"strings"
)

// A Style tells a series from the others: by its colour, and for those who do not see
// the difference of two colours by its marker and its dashes.
type Style struct {
	Hue    int // below Hues
	Marker int // below Markers
	Dash   int // below Dashes
}

// The numbers of colours, markers and dashes.
const (
	Hues    = 7
	Markers = 8
	Dashes  = 5
)

// StyleOf returns the i-th of a row of styles that differ in all three.
func StyleOf(i int) Style {
	return Style{Hue: i % Hues, Marker: i % Markers, Dash: i % Dashes}
}

func (s Style) check() error {
	if s.Hue < 0 || s.Hue >= Hues || s.Marker < 0 || s.Marker >= Markers || s.Dash < 0 || s.Dash >= Dashes {
		return fmt.Errorf("there is no style %+v", s)
	}
	return nil
}

// hues are after Okabe and Ito: colours that differ for all kinds of colour vision. On a
// light page they are darker, and on a dark one lighter, so that thin lines can be seen.
var hues = [Hues]struct{ light, dark string }{
	{"#0068b5", "#58b0ff"}, // blue
	{"#c84a00", "#ff8f4d"}, // vermillion
	{"#007a58", "#35cfa2"}, // green
	{"#b0478a", "#f19fd0"}, // purple
	{"#946a00", "#f0c445"}, // ochre
	{"#57606a", "#aeb8c2"}, // grey
	{"#4b3fa8", "#b3a8ff"}, // indigo
}

// dashes are the lengths of strokes and gaps.
var dashes = [Dashes]string{"", "7 4", "2 3", "10 3 2 3", "14 4"}

// markers are drawn around the origin.
var markers = [Markers]string{
	"M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", // disc
	"M-4 -4h8v8h-8z",        // square
	"M0 -5.5l5 9h-10z",      // triangle
	"M0 -6l5 6l-5 6l-5 -6z", // diamond
	"M0 5.5l5 -9h-10z",      // triangle on its tip
	"M-1.5 -5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",            // plus
	"M-5.5 -3.2h11v2.4h-11zM-5.5 0.8h11v2.4h-11z",                   // two bars
	"M-5 -3l2 -2l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3z", // cross
}

// sheet is the style sheet of every plot. The background is painted: a page may be light
// while the reader's system is dark.
var sheet = func() string {
	var b strings.Builder
	b.WriteString(".page{fill:#ffffff}.ink{fill:#1f2328}.faint{fill:#59636e}" +
		".axis{fill:none;stroke:#59636e}.grid{stroke:#d8dee4}.rule{stroke:#59636e;stroke-dasharray:4 3}")
	for i, h := range hues {
		fmt.Fprintf(&b, ".h%d{fill:%s;stroke:%s}", i, h.light, h.light)
	}
	// These name elements, too, and so come before the colours, which are said again below.
	b.WriteString("text{font-family:system-ui,Arial,sans-serif;font-size:12px}text.title{font-size:16px;font-weight:600}" +
		"text.name,path.marker{stroke:none}path.line{fill:none;stroke-width:2;stroke-linejoin:round}" +
		"path.lead{stroke-width:1;stroke-opacity:0.5}@media (prefers-color-scheme:dark){.page{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#9ba6b1}" +
		".axis{stroke:#9ba6b1}.grid{stroke:#2a313a}.rule{stroke:#9ba6b1}")
	for i, h := range hues {
		fmt.Fprintf(&b, ".h%d{fill:%s;stroke:%s}", i, h.dark, h.dark)
	}
	b.WriteString("}")
	return b.String()
}()
