package quorum

import (
	"math/bits"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/test/server"
)

// A state is known by a number over all that it has and refers to, whether exported or not. Two with the same number
// have the same future. What is by node is apart: worlds in which nodes that are alike have changed places are one.
// Nothing looks at a node's place among the others, but for the order in which they are asked, and that is no order in
// which they answer. Searches with the limit ordered do without.

// A sum is a number over words.
type sum uint64

func (s *sum) add(w uint64) {
	hi, lo := bits.Mul64(uint64(*s)^w^0xa0761d6478bd642f, 0xe7037ed1a0b428db^w<<1)
	*s = sum((hi ^ lo) + bits.RotateLeft64(uint64(*s), 23) + w)
}

// A layout is where a type has what counts.
type layout struct {
	kind   reflect.Kind
	size   uintptr
	fields []part
	of     *layout // elements, or what is pointed to
	len    int     // of an array
	rules  bool    // the slice is one of the rules
	time   bool
}

type part struct {
	at uintptr
	*layout
}

// uncounted are fields that have no influence on what happens, or follow from others.
var uncounted = map[string]bool{
	"Round.Config": true, "Round.Token": true, "Ballot.Took": true, "Fencing.small": true, "Deadline.loc": true, "round.why": true,
	"client.hash": true, "client.whole": true, "client.sum": true, "client.columns": true,
}

var layouts = map[reflect.Type]*layout{}

func layoutOf(t reflect.Type) *layout {
	if l := layouts[t]; l != nil {
		return l
	}
	l := &layout{kind: t.Kind(), size: t.Size()}
	layouts[t] = l
	switch {
	case t == reflect.TypeFor[time.Time]():
		l.time = true
	case l.kind == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !uncounted[t.Name()+"."+f.Name] {
				l.fields = append(l.fields, part{f.Offset, layoutOf(f.Type)})
			}
		}
	case l.kind == reflect.Slice:
		l.of = layoutOf(t.Elem())
		l.rules = t.Elem() == reflect.TypeFor[lease.Ballot]() || t.Elem().Kind() == reflect.Int64
	case l.kind == reflect.Array:
		l.of, l.len = layoutOf(t.Elem()), t.Len()
	case l.kind == reflect.Pointer:
		l.of = layoutOf(t.Elem())
	case l.kind == reflect.Map, l.kind == reflect.Chan, l.kind == reflect.Func, l.kind == reflect.Float64:
		panic("no way to sum up " + t.String())
	}
	return l
}

// add adds what is at p. What is by node goes into columns, if there are any.
func (l *layout) add(p unsafe.Pointer, to *sum, columns []sum) {
	switch {
	case l.time:
		to.add(uint64((*time.Time)(p).Sub(epoch)))
	case l.kind == reflect.Struct:
		for i := range l.fields {
			f := &l.fields[i]
			f.add(unsafe.Add(p, f.at), to, columns)
		}
	case l.kind == reflect.Slice:
		s := *(*[]byte)(p) // Its length is right, whatever its elements are.
		to.add(uint64(len(s)))
		l.elements(unsafe.Pointer(unsafe.SliceData(s)), len(s), l.rules, to, columns)
	case l.kind == reflect.Array:
		l.elements(p, l.len, l.len == maxNodes, to, columns)
	case l.kind == reflect.Pointer:
		if p = *(*unsafe.Pointer)(p); p == nil {
			to.add(0)
			return
		}
		to.add(1)
		l.of.add(p, to, columns)
	case l.kind == reflect.String:
		s := *(*string)(p)
		to.add(uint64(len(s)))
		for _, b := range []byte(s) {
			to.add(uint64(b))
		}
	case l.kind == reflect.Interface:
		addError(*(*error)(p), to)
	case l.size == 8:
		to.add(*(*uint64)(p))
	case l.size == 4:
		to.add(uint64(*(*uint32)(p)))
	case l.size == 2:
		to.add(uint64(*(*uint16)(p)))
	default:
		to.add(uint64(*(*uint8)(p)))
	}
}

func (l *layout) elements(p unsafe.Pointer, n int, byNode bool, to *sum, columns []sum) {
	for i := range n {
		switch {
		case !byNode || columns == nil:
			l.of.add(unsafe.Add(p, uintptr(i)*l.of.size), to, nil)
		case i < len(columns):
			l.of.add(unsafe.Add(p, uintptr(i)*l.of.size), &columns[i], nil)
		}
	}
}

// addError adds which error it is: all are the same ones all the time, but for a standstill, of which the round knows.
func addError(err error, to *sum) {
	switch e := err.(type) { //nolint:errorlint // Not what wraps it.
	case nil:
		to.add(0)
	case node.StandstillError:
		to.add(uint64(e) | 1<<62)
	default:
		to.add(uint64((*[2]uintptr)(unsafe.Pointer(&e))[1]))
	}
}

var clientLayout, serverLayout = layoutOf(reflect.TypeFor[client]()), layoutOf(reflect.TypeFor[server.Server]())

// sum is the world's number.
func (w *world) sum() uint64 {
	var columns [maxNodes]sum
	main := sum(w.now)
	for _, n := range w.used {
		main.add(uint64(n))
	}
	for i := range w.limits.nodes {
		columns[i].add(w.s.marks[i])
		serverLayout.add(unsafe.Pointer(&w.nodes[i]), &columns[i], nil)
		columns[i].add(uint64(w.closed[i]))
	}
	for k := range w.limits.clients {
		c := w.clients[k]
		if !c.hash {
			var by [maxNodes]sum
			of := sum(k)
			clientLayout.add(unsafe.Pointer(c), &of, by[:w.limits.nodes])
			c.hash, c.sum = true, uint64(of)
			for i := range by {
				c.columns[i] = uint64(by[i])
			}
		}
		main.add(c.sum)
		for i := range w.limits.nodes {
			columns[i].add(c.columns[i])
		}
	}
	all := columns[:w.limits.nodes]
	if !w.ordered {
		slices.Sort(all)
	}
	for _, c := range all {
		main.add(uint64(c))
	}
	return uint64(main)
}

// marks are what tells nodes apart.
func (l *limits) marks() (marks [maxNodes]uint64) {
	for i := range l.nodes {
		s := sum(0)
		for _, set := range []uint8{l.mute, l.down, l.unnamed, l.leaves, l.behind} {
			s.add(uint64(set >> i & 1))
		}
		s.add(uint64(l.takes[i]))
		for k := range l.clients {
			if n := int(l.given[k]); n > 0 && i >= n {
				s.add(uint64(k))
			}
		}
		marks[i] = uint64(s)
	}
	return marks
}

var (
	fencingType   = reflect.TypeFor[lease.Fencing]()
	countersField = fieldOf(fencingType, "counters")
	blockField    = fieldOf(fencingType, "block")
)

// fieldOf is one of the rules' that is not exported.
func fieldOf(t reflect.Type, name string) reflect.StructField {
	f, ok := t.FieldByName(name)
	if !ok {
		panic(t.Name() + " has no " + name)
	}
	return f
}

// A block is what a lease.Fencing has of a block.
type block struct{ set, found []int64 }

// cloneFencing has a copy share nothing with what it was copied from.
func cloneFencing(f *lease.Fencing) {
	counters := (*[]int64)(unsafe.Add(unsafe.Pointer(f), countersField.Offset))
	*counters = slices.Clone(*counters)
	if b := (**block)(unsafe.Add(unsafe.Pointer(f), blockField.Offset)); *b != nil {
		*b = &block{slices.Clone((*b).set), slices.Clone((*b).found)}
	}
}

// What a round refers to is copied with it, or is never changed.
func TestQuorumCopiesWholeRounds(t *testing.T) {
	var refers func(t reflect.Type, name string) []string
	refers = func(t reflect.Type, name string) (all []string) {
		for i := range t.NumField() {
			f := t.Field(i)
			at := name + "." + f.Name
			switch f.Type.Kind() {
			case reflect.Struct:
				if f.Type != reflect.TypeFor[time.Time]() {
					all = append(all, refers(f.Type, at)...)
				}
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.Interface:
				all = append(all, at)
			}
		}
		return all
	}
	require.Equal(t, []string{"Round.Config", "Round.Ballots", "Round.Valid", "Round.Fencing", "Round.Contest"}, refers(reflect.TypeFor[lease.Round](), "Round"))
	require.Equal(t, []string{"Fencing.counters", "Fencing.block"}, refers(fencingType, "Fencing"))
	rules := blockField.Type.Elem()
	require.Equal(t, rules.Size(), reflect.TypeFor[block]().Size())
	require.Equal(t, []string{"block.set", "block.found"}, refers(rules, "block")) // As cloneFencing has it.
	require.Equal(t, []string{"Contest.votes"}, refers(reflect.TypeFor[lease.Contest](), "Contest"))
	require.Equal(t, []string{"Ballot.Err", "Ballot.Holder"}, refers(reflect.TypeFor[lease.Ballot](), "Ballot"))
}
