// Package redlock is the root of the module, and has nothing in it. The lock is in the package
// [github.com/seed6c881748/redlock/redlock].
//
// It imports that one, so that go get of the module brings in what a program with the lock
// needs. Without a package here, go build would ask for a second go get.
package redlock

import _ "github.com/seed6c881748/redlock/redlock" // See above.
