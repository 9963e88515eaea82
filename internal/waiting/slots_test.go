package waiting

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A hunt is a Search with what is asked for.
type hunt struct {
	*Search

	asked map[int]bool
	order []int
}

// ask has more calls want a slot, and looks at which.
func (h *hunt) ask(t *testing.T, n int) {
	t.Helper()
	var want []int
	for _, slot := range h.order {
		if !h.asked[slot] && len(want) < n {
			want = append(want, slot)
		}
	}
	require.Equal(t, want, h.Ask(n, h.order))
	for _, slot := range want {
		h.asked[slot] = true
	}
}

// Whatever has ended before, every slot is asked for in the end, none twice at a time, and few at first.
func TestSearchComesToEverySlot(t *testing.T) {
	for slots := 1; slots <= 40; slots++ {
		for callers := 1; callers <= min(slots, 7); callers++ {
			for ended := 0; ended <= callers; ended++ {
				h := &hunt{Search: NewSearch(slots), asked: map[int]bool{}}
				for slot := range slots {
					h.order = append(h.order, slots-1-slot)
				}
				h.ask(t, callers)
				for _, slot := range h.order[:ended] {
					h.Done(slot)
					delete(h.asked, slot)
				}
				for range 10 {
					n := h.Refused()
					require.Equal(t, len(h.asked) < eager, n > 0, "asked for %d of %d", len(h.asked), slots)
					require.LessOrEqual(t, n, 2)
					h.ask(t, n)
				}
				for range 4 { // 40 is less than 3⁴.
					n := h.Widen()
					require.Equal(t, len(h.asked) < slots, n > 0, "asked for %d of %d", len(h.asked), slots)
					require.LessOrEqual(t, n, 2*len(h.asked))
					h.ask(t, n)
				}
				require.Len(t, h.asked, slots)
			}
		}
	}
}

// The slots of the own process come last: whoever waits there comes after it.
func TestSearchOrder(t *testing.T) {
	require.Equal(t, []int{4, 2, 0, 3, 1}, Order([]int{4, 3, 2, 1, 0}, func(slot int) bool { return slot%2 == 1 }))
}
