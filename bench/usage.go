package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

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
