package settings

import "strconv"

// MaxPermits is the most that a semaphore has, as whoever waits long enough asks for all slots.
const MaxPermits = 256

// Slots are the resources of a semaphore's slots. All packages that show permits know them by these names.
func Slots(name string, k int) []string {
	slots := make([]string, k)
	for i := range slots {
		slots[i] = name + "#" + strconv.Itoa(i)
	}
	return slots
}
