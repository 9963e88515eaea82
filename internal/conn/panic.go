package conn

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// recovered is deferred around a user's code that runs on a goroutine of the library, where a panic would end the
// process and nobody could recover from it. It turns the panic into an error that says where it came from.
func recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v%s", what, p, panicSite())
	}
}

// panicSite returns where the panic that is being recovered from was raised, if that can be found.
func panicSite() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for panicked := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf(" (at %s:%d)", f.File, f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// giveBack returns a connection to its pool.
func giveBack(c redis.Conn) {
	var err error
	defer recovered("Close of the pool's connection", &err)
	_ = c.Close()
}
