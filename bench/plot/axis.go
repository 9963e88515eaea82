package plot

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// An Axis says what is measured along one side of the frame.
type Axis struct {
	Label string // what is measured, as in "throughput"
	Unit  string // in what, as in "op/s"; empty for plain numbers
	Log   bool   // logarithmic: all values must be above 0
	Zero  bool   // a linear axis that begins at 0

	// Ticks are where the ticks are. Without them they are at round numbers, of which
	// the first and the last are the ends of a linear axis.
	Ticks []float64
}

func (a Axis) text() string {
	if a.Unit == "" {
		return a.Label
	}
	return fmt.Sprintf("%s (%s)", a.Label, a.Unit)
}

// A scale places values between the two ends of an axis.
type scale struct {
	from, to float64
	log      bool
	ticks    []float64
}

// newScale returns a scale on which all values have their place.
func newScale(a Axis, values []float64) (scale, error) {
	if len(values) == 0 {
		return scale{}, errors.New("there are no points")
	}
	values = slices.Concat(values, a.Ticks)
	for _, v := range values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return scale{}, fmt.Errorf("%s: %v cannot be drawn", a.Label, v)
		case a.Log && v <= 0:
			return scale{}, fmt.Errorf("%s: %v has no place on a logarithmic axis", a.Label, v)
		}
	}
	least, most := slices.Min(values), slices.Max(values)
	switch {
	case len(a.Ticks) > 0 && least < most:
		return scale{from: least, to: most, log: a.Log, ticks: a.Ticks}, nil
	case a.Log && arePowersOfTwo(values):
		return powersOfTwo(least, most), nil
	case a.Log:
		return decades(least, most), nil
	case a.Zero:
		least, most = min(least, 0), max(most, 0)
	}
	return linear(least, most), nil
}

// at returns where a value is: 0 at the beginning of the axis, 1 at its end.
func (s scale) at(v float64) float64 {
	if s.log {
		return math.Log(v/s.from) / math.Log(s.to/s.from)
	}
	return (v - s.from) / (s.to - s.from)
}
