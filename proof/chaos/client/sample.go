package client

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

// sample tells how much the process uses. Memory is in MB, and that of the heap what is in use after a collection.
func (c *client) sample(tick int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const mega = 1 << 20
	c.rec.Log(history.Event{Kind: history.Sample, Value: tick, Figures: map[string]float64{
		"locks": float64(c.lib.Stats().Acquired), "goroutines": float64(runtime.NumGoroutine()),
		"memory": resident() / mega, "heap": float64(m.HeapAlloc) / mega,
	}})
}

// resident returns the bytes of memory that the process has, where /proc tells.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize())
}
