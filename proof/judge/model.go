package judge

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A piece is a part of what happened to a resource that can be checked by itself: at its ends nothing was under way, and
// the model's state was known.
type piece struct {
	model      porcupine.Model
	operations []porcupine.Operation
}

// minPiece is how many operations a piece has at least, if there are as many: a piece for each lock would cost more than
// it saves.
const minPiece = 100

// explainTime bounds the search for what to show of a piece that no order fits.
const explainTime = 3 * time.Second

// checkModel checks all pieces of a resource, by deadline. A single piece gets a part of the time that is left, so that
// one which takes too long does not hide the others.
func checkModel(f *findings, name, res string, pieces []piece, deadline time.Time) {
	for _, p := range pieces {
		f.facts += len(p.operations)
		left := time.Until(deadline)
		if left <= 0 {
			f.unknown = "there was no time left to check all of it"
			return
		}
		switch porcupine.CheckOperationsTimeout(p.model, p.operations, max(left/4, 1)) {
		case porcupine.Illegal:
			explain(f, name, res, p)
		case porcupine.Unknown:
			from, to := p.bounds()
			f.unknown = "no order was found, nor shown not to be, in the time given, from " + at(from) + " to " + at(to) +
				" of " + res
		case porcupine.Ok:
		}
	}
}

// bounds are the first and the last instant of a piece.
func (p piece) bounds() (from, to int64) {
	from = math.MaxInt64
	for _, o := range p.operations {
		from, to = min(from, o.Call), max(to, o.Return)
	}
	return from, to
}

// explain tells of a piece that no order fits: which operation does not fit in the longest order that was found.
func explain(f *findings, name, res string, p piece) {
	_, info := porcupine.CheckOperationsVerbose(p.model, p.operations, explainTime)
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := make(map[any]bool)
	for _, o := range longest {
		placed[o.Metadata] = true
	}
	rest := slices.DeleteFunc(slices.Clone(p.operations), func(o porcupine.Operation) bool { return placed[o.Metadata] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	from, to := p.bounds()
	where, says := place{from: from, to: to, resource: res}, "nothing"
	if len(rest) > 0 {
		where.from, where.to = rest[0].Call, rest[0].Return
		says = p.model.DescribeOperation(rest[0].Input, rest[0].Output)
	}
	if len(longest) > 0 {
		last := longest[len(longest)-1]
		where.from, where.to = min(where.from, last.Call), max(where.to, last.Return)
	}
	f.violation(where, "no order of the operations agrees with their answers: after %d of %d, there is no place for: %s",
		len(longest), len(p.operations), says)
	f.drawings = append(f.drawings, Drawing{Model: name, Resource: res, draw: func(w io.Writer) error {
		return porcupine.Visualize(p.model, info, w)
	}})
}

// clientNumbers gives each client a line in Porcupine's picture.
type clientNumbers map[string]int

func (n clientNumbers) of(client string) int {
	i, ok := n[client]
	if !ok {
		i = len(n)
		n[client] = i
	}
	return i
}
