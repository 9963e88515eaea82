// Package reserved tells the library's own keys and channels from those of locks. The packages that read and write them
// know the rest of their names.
package reserved

import "strings"

// Mark is in every key of the library's own. No key of a resource has it.
const Mark = "__redlock__:"

// Has reports whether a key is one of the library's own, under any prefix.
func Has(key string) bool { return strings.Contains(key, Mark) }
