package trace

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// A line is one that MONITOR shows: a command that a server has carried out, and when, by its own clock.
type line struct {
	at     int64  // ns since 1970
	db     int    // the number of the database
	script bool   // a script has called it: the command before that is of no script is the script's request
	client string // whose it is, as the server names the connection
	args   []string
}

var errLine = errors.New("a line of its MONITOR cannot be read; Valkey before 8.1.2 does not escape quotes in it")

// parse reads a line: 1700000000.123456 [0 127.0.0.1:50000] "set" "key" "value".
func parse(text string) (l line, err error) {
	stamp, rest, _ := strings.Cut(text, " [")
	from, rest, ok := strings.Cut(rest, "] ")
	seconds, micros, dot := strings.Cut(stamp, ".")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	db, client, _ := strings.Cut(from, " ")
	l.db, err = strconv.Atoi(db)
	if !ok || !dot || err != nil || err1 != nil || err2 != nil {
		return l, errLine
	}
	l.at, l.client, l.script = s*1e9+us*1e3, client, client == "lua"
	l.args, err = words(rest)
	return l, err
}

// words reads strings in quotes. The server writes what cannot be printed as \x00, and some of it as \n.
func words(text string) (args []string, err error) {
	for text != "" {
		end := 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if text[0] != '"' || end >= len(text) || end+1 < len(text) && text[end+1] != ' ' {
			return nil, errLine
		}
		arg := text[1:end]
		if strings.Contains(arg, `\`) { // The escapes of the server are escapes of Go, too.
			if arg, err = strconv.Unquote(text[:end+1]); err != nil {
				return nil, errLine
			}
		}
		args = append(args, arg)
		text = strings.TrimPrefix(text[end+1:], " ")
	}
	if len(args) == 0 {
		return nil, errLine
	}
	return args, nil
}

// Digest is what stands for a token wherever it is shown. redlock's holders have the same.
func Digest(token string) string {
	sum := sha1.Sum([]byte(token))
	return hex.EncodeToString(sum[:])[:12]
}

var labelled = regexp.MustCompile(`^[0-9a-f]{32} owner=(.{1,128})$`)

// label is the one in a value, "" if it has none.
func label(value string) string {
	if found := labelled.FindStringSubmatch(value); found != nil {
		return found[1]
	}
	return ""
}
