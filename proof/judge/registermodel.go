package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed6c881748/redlock/proof/history"
)

// registerState is a register that refuses whoever comes with a fence behind the highest that it has seen.
type registerState struct{ highest, value int64 }

// registerInput is an operation, or with final the look at what was left.
type registerInput struct {
	what  string
	write bool
	final bool
	fence int64
	value int64 // to write
}

type registerOutput struct {
	unknown bool // Nobody knows whether it was done.
	ok      bool
	value   int64 // that was read
	fence   int64 // of the final look
}

// stepRegister is the register. What nobody knows the answer of may have been done, or not: an operation without an
// answer has no end, and to come after all others is the same as not to have been done.
func stepRegister(s registerState, in registerInput, out registerOutput) (bool, registerState) {
	if in.final {
		return out.value == s.value && out.fence == s.highest, s
	}
	behind := in.fence > 0 && in.fence < s.highest
	if !out.unknown && out.ok == behind {
		return false, s
	}
	if behind {
		return true, s
	}
	if !in.write && !out.unknown && out.value != s.value {
		return false, s
	}
	s.highest = max(s.highest, in.fence)
	if in.write {
		s.value = in.value
	}
	return true, s
}

func registerFrom(start registerState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, output any) (bool, any) {
			return stepRegister(state.(registerState), input.(registerInput), output.(registerOutput))
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(registerInput), output.(registerOutput)
			switch {
			case in.final:
				return fmt.Sprintf("in the end: value %d, fence %d", out.value, out.fence)
			case out.unknown:
				return in.what + ": not answered"
			case !out.ok:
				return in.what + ": refused"
			case in.write:
				return in.what + ": done"
			default:
				return fmt.Sprintf("%s: %d", in.what, out.value)
			}
		},
		DescribeState: func(state any) string {
			s := state.(registerState)
			return fmt.Sprintf("value %d, fence %d", s.value, s.highest)
		},
	}
}

// registerModel has Porcupine look for an order of a register's operations.
func registerModel(r *run, f *findings) {
	deadline := time.Now().Add(r.modelTime)
	clients := make(clientNumbers)
	for _, res := range slices.Sorted(maps.Keys(r.operations)) {
		operations := slices.SortedStableFunc(slices.Values(r.operations[res]), byStart)
		if final, ok := r.final[res]; ok {
			operations = append(operations, final)
		}
		checkModel(f, "register model", res, registerPieces(operations, clients), deadline)
	}
}

// registerPieces cuts the operations on a register after such as show its whole state: they were granted, with a fence,
// while nothing else was under way.
func registerPieces(operations []history.Event, clients clientNumbers) []piece {
	fenced := slices.ContainsFunc(operations, func(e history.Event) bool { return e.Fence > 0 })
	var pieces []piece
	p := piece{model: registerFrom(registerState{})}
	busy := int64(-1)
	for i, e := range operations {
		o := registerOperation(e, i, clients)
		p.operations = append(p.operations, o)
		last := i+1 == len(operations)
		alone := o.Call > busy && !last && operations[i+1].At > o.Return
		busy = max(busy, o.Return)
		shows := e.OK && e.End > 0 && (e.Fence > 0 || !fenced)
		if last || alone && shows && len(p.operations) >= minPiece {
			pieces = append(pieces, p)
			p = piece{model: registerFrom(registerState{e.Fence, e.Value})}
		}
	}
	return pieces
}

func registerOperation(e history.Event, i int, clients clientNumbers) porcupine.Operation {
	o := porcupine.Operation{ClientId: clients.of(e.Client), Call: e.At, Return: max(e.At, e.End), Metadata: i}
	in := registerInput{write: e.Kind == history.Write, final: e.Kind == history.Register, fence: e.Fence, value: e.Value}
	in.what = fmt.Sprintf("%s's %s with fence %d", e.Client, e.Kind, e.Fence)
	out := registerOutput{ok: e.OK, value: e.Value, fence: e.Fence}
	if in.write {
		in.what = fmt.Sprintf("%s's write of %d with fence %d", e.Client, e.Value, e.Fence)
	}
	if !in.final && e.End == 0 {
		out.unknown, o.Return = true, math.MaxInt64
	}
	o.Input, o.Output = in, out
	return o
}
