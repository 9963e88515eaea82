package main

import (
	"regexp"
	"time"
)

// settings are what the flags say.
type settings struct {
	args           []string // the flags as they were given
	nodes          int
	ttl            time.Duration
	rounds         int
	time           time.Duration
	goroutines     []int
	fresh          bool
	only           []string
	nodeCounts     []int
	held           int
	parts          []part
	blocks         int
	blockSize      int
	settle         time.Duration
	faultTime      time.Duration
	trials         int
	contentionTime time.Duration
	contests       *regexp.Regexp
	warmUp         time.Duration
	waitTime       time.Duration
	waiters        int
	callers        []int
	overloadTime   time.Duration
	cpuProfile     string
	write          string
	smoke          bool
}

// A part is one measurement.
type part struct {
	name  string
	run   func(settings, *section) error
	plots []string // the names of the plots that it draws
}
