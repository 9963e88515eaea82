package conn

import (
	"fmt"
	"strconv"
)

// AppendCommand appends a command in the form that the server reads: an array of bulk strings. redigo would take three
// times as long, which counts where a command goes to every node.
func AppendCommand(b []byte, name string, args []any) []byte {
	b = appendHead(b, '*', 1+len(args))
	b = appendBulk(b, name)
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			b = appendBulk(b, arg)
		case []byte:
			b = appendBulk(b, arg)
		case int:
			b = appendInt(b, int64(arg))
		case int64:
			b = appendInt(b, arg)
		case bool:
			if arg {
				b = appendInt(b, 1)
			} else {
				b = appendInt(b, 0)
			}
		default:
			b = appendBulk(b, fmt.Sprint(arg))
		}
	}
	return b
}

func appendHead(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

func appendBulk[T string | []byte](b []byte, s T) []byte {
	b = appendHead(b, '$', len(s))
	b = append(b, s...)
	return append(b, '\r', '\n')
}

func appendInt(b []byte, n int64) []byte {
	var digits [20]byte
	return appendBulk(b, strconv.AppendInt(digits[:0], n, 10))
}
