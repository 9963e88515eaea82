package client

import (
	"runtime"

	"github.com/seed6c881748/redlock/proof/history"
)

// sample tells how much the process uses. Of the heap it is MB, in use after a collection.
func (c *client) sample(tick int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const mega = 1 << 20
	c.rec.Log(history.Event{Kind: history.Sample, Value: tick, Figures: map[string]float64{
		"locks": float64(c.lib.Stats().Acquired), "goroutines": float64(runtime.NumGoroutine()),
		"heap": float64(m.HeapAlloc) / mega,
	}})
}
