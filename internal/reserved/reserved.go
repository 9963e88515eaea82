// Package reserved tells the library's own keys and channels from those of locks. What follows in their names is with
// those that read and write them.
package reserved

import "strings"

// Mark is in every key that the library keeps things of its own under. No key of a resource has it.
const Mark = "__redlock__:"

// Has reports whether a key lies where the library keeps things of its own: under one prefix or another.
func Has(key string) bool { return strings.Contains(key, Mark) }
