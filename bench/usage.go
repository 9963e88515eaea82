package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// cpuTime returns the processor time that this process has used, in user and
// system mode. It is 0 where the system does not tell. Child processes, which
// the servers are, do not count before they have ended.
func cpuTime() time.Duration {
	if d := rusage(); d > 0 {
		return d
	}
	return procTime("self")
}

// procTime reads the processor time of a process from the proc file system, in steps of
// 10 ms. It is 0 where there is none.
func procTime(pid string) time.Duration {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// The program's name, in parentheses, may contain blanks. User and system
	// time are the 14th and 15th field, the state after the name being the 3rd.
	const user, system = 14 - 3, 15 - 3
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := bytes.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	const tick = time.Second / 100 // The kernel shows all times in these units.
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}
