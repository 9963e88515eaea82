package plot

import (
	"math"
	"strconv"
	"strings"
)

// maxTicks is how many an axis has at most: more labels would touch each other.
const maxTicks = 8

// linear returns a scale whose ticks are multiples of 1, 2 or 5 times a power of
// ten, the first and the last of which are its ends.
func linear(least, most float64) scale {
	if least == most { // One value: it stands in the middle.
		room := max(math.Abs(least)/2, 1)
		least, most = least-room, most+room
	}
	exponent := int(math.Floor(math.Log10((most - least) / maxTicks)))
	for _, times := range []float64{1, 2, 5, 10, 20} {
		step := decimal(times, exponent)
		first, last := math.Floor(least/step), math.Ceil(most/step)
		if last-first >= maxTicks {
			continue
		}
		s := scale{from: decimal(first*times, exponent), to: decimal(last*times, exponent)}
		for n := first; n <= last; n++ {
			s.ticks = append(s.ticks, decimal(n*times, exponent))
		}
		return s
	}
	panic("plot: no step fits") // The last one is a tenth of the span at least, and its ends add less than two.
}

// decimal returns a whole number times a power of ten. It is read, not computed: 3 times
// 0.1 would be a little more than 0.3.
func decimal(n float64, exponent int) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(n, 'f', -1, 64)+"e"+strconv.Itoa(exponent), 64)
	if err != nil {
		panic(err) // Both are those of a float64.
	}
	return v
}

// decades returns a logarithmic scale, whose ticks are 1, 2 and 5 times the powers
// of ten, or only these powers if there are many.
func decades(least, most float64) scale {
	var all, powers []float64
	exponent := int(math.Floor(math.Log10(least))) - 1
	for ; len(all) == 0 || all[len(all)-1] < most || len(all) < 2; exponent++ {
		for _, times := range []float64{1, 2, 5} {
			v := decimal(times, exponent)
			switch {
			case v <= least:
				all, powers = []float64{v}, nil
			case all[len(all)-1] < most || len(all) < 2:
				all = append(all, v)
			default:
				continue
			}
			if times == 1 {
				powers = append(powers, v)
			}
		}
	}
	s := scale{from: all[0], to: all[len(all)-1], log: true, ticks: all}
	if len(all) > maxTicks && len(powers) > 1 {
		s.ticks = powers
	}
	for len(s.ticks) > maxTicks {
		s.ticks = everySecond(s.ticks)
	}
	return s
}

func everySecond(ticks []float64) (half []float64) {
	for i := 0; i < len(ticks); i += 2 {
		half = append(half, ticks[i])
	}
	return half
}

// powersOfTwo returns a logarithmic scale for values that all are such powers: every
// one of them has a tick, or every second one and so on if they are many.
func powersOfTwo(least, most float64) scale {
	if least == most {
		least, most = least/2, most*2
	}
	s := scale{from: least, to: most, log: true}
	step := 2.0
	for math.Log(most/least)/math.Log(step) >= maxTicks {
		step *= 2
	}
	for v := least; v <= most; v *= step {
		s.ticks = append(s.ticks, v)
	}
	return s
}

func arePowersOfTwo(values []float64) bool {
	for _, v := range values {
		if fraction, _ := math.Frexp(v); fraction != 0.5 || v < 1 {
			return false
		}
	}
	return true
}

// number writes a value of a tick, with its thousands apart.
func number(v float64) string {
	if v == 0 {
		return "0" // Not -0.
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', -1, 64)
	whole, fraction, found := strings.Cut(text, ".")
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
