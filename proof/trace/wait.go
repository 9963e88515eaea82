package trace

import (
	"strconv"
	"strings"
)

// A waiting is the line of those that wait for a key of redlock on a server, as far as it is known: it was seen to form.
type waiting struct {
	line     map[string]float64 // Channels, by their places.
	lasts    int64              // It is there until then at least, by the server's clock.
	bell     bool               // Who releases the key tells somebody in line only if it finds this.
	reserved string             // The channel that was told, for so long at least.
	until    int64
}

// waits is in the names of the keys of a line: the bell is "…:b", the line "…:bl", the reservation "…:br".
const waits = own + "w:"

// wait follows a command, if it is about a line.
func (k *keys) wait(command string, args []string) {
	prefix, of, is := strings.Cut(args[0], waits)
	i := strings.LastIndex(of, ":b")
	if !is || i < 0 {
		return
	}
	name, part := prefix+of[:i], of[i+2:]
	w := k.lines[name]
	if w == nil {
		w = &waiting{line: make(map[string]float64)}
		k.lines[name] = w
	}
	switch command + part {
	case "ZADDl":
		for i := 1; args[i] != ""; i += 2 {
			w.line[args[i+1]], _ = strconv.ParseFloat(args[i], 64)
		}
	case "ZREMl":
		delete(w.line, args[1])
	case "ZPOPMINl":
		first := ""
		for channel, place := range w.line {
			if first == "" || place < w.line[first] {
				first = channel
			}
		}
		if delete(w.line, first); args[1] != "" {
			clear(w.line)
		}
	case "PEXPIREl":
		w.lasts = k.from + number(args[1])*ms
	case "DELl":
		clear(w.line)
	case "SET":
		w.bell = true
	case "DEL":
		if !w.bell && len(w.line) > 0 && k.to < w.lasts && k.released == name {
			k.odd(name, strconv.Itoa(len(w.line))+" wait in line, and a release tells nobody, as there is no bell")
		}
		w.bell = false
	case "SETr":
		w.reserved, w.until = args[1], k.from+number(args[3])*ms
	case "DELr":
		w.reserved = ""
	}
}
