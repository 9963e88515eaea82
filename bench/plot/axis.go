package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// set makes an axis that knows its values as the chart wants it.
func (a Axis) set(p *plot.Axis) error {
	p.Label.Text = a.Label
	if a.Zero {
		p.Min, p.Max = min(p.Min, 0), max(p.Max, 0)
	}
	switch {
	case a.Log && p.Min <= 0:
		return fmt.Errorf("%s: %v has no place on a logarithmic axis", a.Label, p.Min)
	case a.Log && p.Min == p.Max:
		p.Min, p.Max = p.Min/2, p.Max*2
	case p.Min == p.Max:
		p.Min, p.Max = p.Min-1, p.Max+1
	}
	if a.Log {
		p.Scale = plot.LogScale{}
	}
	values := a.Ticks
	switch {
	case len(values) > 0:
	case a.Log:
		values = logTicks(p.Min, p.Max)
		p.Min, p.Max = values[0], values[len(values)-1]
	default:
		for _, t := range (plot.DefaultTicks{}).Ticks(p.Min, p.Max) {
			if t.Label != "" {
				values = append(values, t.Value)
			}
		}
	}
	ticks := plot.ConstantTicks{}
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	p.Tick.Marker = ticks
	return nil
}

// logTicks returns powers of ten, and 2 and 5 times them where these are few. All values are
// between the first and the last.
func logTicks(from, to float64) (ticks []float64) {
	digits := []float64{1, 2, 5}
	if to/from > 100 {
		digits = digits[:1]
	}
	for exponent := int(math.Floor(math.Log10(from))); ; exponent++ {
		for _, d := range digits {
			v := d * math.Pow10(exponent)
			if v <= from {
				ticks = ticks[:0]
			}
			ticks = append(ticks, v)
			if v >= to {
				return ticks
			}
		}
	}
}

// number writes a value of a tick, with its thousands apart.
func number(v float64) string {
	whole, fraction, found := strings.Cut(strconv.FormatFloat(math.Abs(v), 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if found {
		whole += "." + fraction
	}
	if v < 0 {
		return "−" + whole
	}
	return whole
}
