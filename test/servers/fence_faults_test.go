package servers

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A fencedTenure is a lock's fence, and when it was asked for, got and given up, by
// the monotonic clock of this process.
type fencedTenure struct {
	asked, got, left time.Duration
	fence            int64
}

func (f fencedTenure) String() string {
	return fmt.Sprintf("%d (asked for %v, got %v)", f.fence, f.asked, f.got)
}

// fenceFaults looks at all locks on one resource: two with one fence are duplicates;
// a fence is misordered if it is not larger than that of a lock that was got before
// it was asked for. The texts are examples. overlaps is how often a lock was got
// before an earlier one had been given up.
func fenceFaults(all []fencedTenure) (duplicates, misordered []string, overlaps int) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b fencedTenure) int { return cmp.Compare(a.fence, b.fence) })
	for i := 1; i < len(all); i++ {
		if all[i].fence == all[i-1].fence {
			duplicates = append(duplicates, fmt.Sprint(all[i-1], " = ", all[i]))
		}
	}
	slices.SortFunc(all, func(a, b fencedTenure) int { return cmp.Compare(a.got, b.got) })
	largest := make([]fencedTenure, len(all)) // of those got up to each one
	var left time.Duration
	for i, f := range all {
		if largest[i] = f; i > 0 && largest[i-1].fence > f.fence {
			largest[i] = largest[i-1]
		}
		if f.got < left {
			overlaps++
		}
		left = max(left, f.left)
	}
	for _, f := range all {
		before := sort.Search(len(all), func(i int) bool { return all[i].got >= f.asked })
		if before > 0 && largest[before-1].fence >= f.fence {
			misordered = append(misordered, fmt.Sprint(f, " after ", largest[before-1]))
		}
	}
	return duplicates, misordered, overlaps
}

func TestFenceFaultsAreSeen(t *testing.T) {
	good := []fencedTenure{{0, 10, 12, 3}, {5, 11, 20, 2}, {12, 13, 14, 4}, {13, 20, 30, 9}}
	duplicates, misordered, overlaps := fenceFaults(good)
	assert.Empty(t, duplicates)
	assert.Empty(t, misordered, "the first two were asked for before either was got")
	assert.Equal(t, 2, overlaps)
	duplicates, misordered, _ = fenceFaults(append(good, fencedTenure{21, 22, 23, 5}))
	assert.Empty(t, duplicates)
	assert.Len(t, misordered, 1)
	duplicates, misordered, _ = fenceFaults(append(good, fencedTenure{19, 22, 23, 9}))
	assert.Len(t, duplicates, 1)
	assert.Empty(t, misordered)
}
