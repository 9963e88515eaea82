package trace

import (
	"strconv"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
)

// carry follows a command. All commands of a script see the time at which it began, and so do those of a transaction.
func (k *keys) carry(l line) {
	command := strings.ToUpper(l.args[0])
	if !l.script {
		if !k.multi[l.client] || l.client != k.client {
			k.from = min(k.last, l.at)
		}
		k.request, k.client, k.digests = l.args, l.client, nil
		k.number++
	}
	if k.last-l.at > ms { // A key that had expired and that nobody has looked at since is there again.
		k.step(history.Event{Op: history.StepSet})
		k.reread()
	}
	k.to, k.last = max(k.last, l.at), l.at
	switch command {
	case "MULTI":
		k.multi[l.client] = true
	case "EXEC", "DISCARD":
		delete(k.multi, l.client)
	case "FLUSHALL":
		k.flush()
	case "SWAPDB":
		k.reread()
	default:
		if l.db == k.db {
			k.follow(command, append(l.args[1:], "", "", ""), l.script) // So that none need be counted.
		}
	}
}

// follow follows a command on keys of this database.
func (k *keys) follow(command string, args []string, script bool) {
	switch command {
	case "SET":
		k.set(args[0], args[1], args[2:], script)
	case "DEL", "UNLINK":
		for _, name := range args {
			k.del(name)
		}
	case "DELIFEQ", "DELEX": // Of a release without a script. If it has found another value, nothing was done.
		switch x := k.all[args[0]]; {
		case x != nil && k.names(x.holder) && (command == "DELIFEQ" || strings.EqualFold(args[1], "IFEQ")):
			k.del(args[0])
		case x != nil && (!x.known || command == "DELEX" && !strings.EqualFold(args[1], "IFEQ")):
			k.other(args[:1])
		}
	case "PEXPIRE", "EXPIRE":
		n, err := strconv.ParseInt(args[1], 10, 64)
		unit := map[string]int64{"PEXPIRE": ms, "EXPIRE": 1e9}[command]
		switch {
		case err != nil: // The server has refused it.
		case args[2] != "":
			k.other(args)
		case n > 0:
			k.expire(args[0], n*unit)
		default:
			k.del(args[0])
		}
	case "FLUSHDB":
		k.flush()
	default:
		if !strings.HasPrefix(command, "EVAL") && !strings.HasPrefix(command, "FCALL") {
			k.other(args)
		}
	}
}

func number(arg string) int64 {
	n, _ := strconv.ParseInt(arg, 10, 64)
	return n
}

// An option of SET that gives the key an end, its unit, and whether it is an instant.
var ends = map[string]struct {
	unit  int64
	fixed bool
}{"PX": {ms, false}, "EX": {1e9, false}, "PXAT": {ms, true}, "EXAT": {1e9, true}}

// set follows SET name value and options.
func (k *keys) set(name, value string, options []string, script bool) {
	var life int64
	free, known := false, true // It is to be done only if the key is free, and what it does is known.
	for i := 0; options[i] != ""; i++ {
		option := strings.ToUpper(options[i])
		end, ok := ends[option]
		switch {
		case option == "NX":
			free = true
		case ok:
			if life = number(options[i+1]) * end.unit; end.fixed {
				life -= k.last
			}
			i++
			known = known && life > 0
		case option != "GET":
			known = false
		}
	}
	x := k.all[name]
	switch {
	case strings.Contains(name, counters):
		k.count(name, number(value))
	case strings.Contains(name, own):
	case x == nil && (life <= 0 || !free && !script):
	case !known:
		k.other([]string{name})
	default:
		if x == nil {
			x = &key{}
			k.all[name] = x
		}
		k.take(name, x, value, life, free)
	}
}

// names reports whether the request has the holder's token among its arguments.
func (k *keys) names(holder string) bool {
	if k.digests == nil {
		k.digests = make(map[string]bool)
		for _, arg := range k.request {
			k.digests[Digest(arg)] = true
		}
	}
	return k.digests[holder]
}
