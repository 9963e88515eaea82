package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A load is what servers have done by their own account, all together.
type load struct {
	cpu                             time.Duration
	commands, scripts, reads, dials int64
}

func (l load) plus(o load) load {
	return load{l.cpu + o.cpu, l.commands + o.commands, l.scripts + o.scripts, l.reads + o.reads, l.dials + o.dials}
}

func (l load) minus(o load) load {
	return load{l.cpu - o.cpu, l.commands - o.commands, l.scripts - o.scripts, l.reads - o.reads, l.dials - o.dials}
}

// A meter asks servers what they have done. It keeps its connections: making one would
// count as well.
type meter struct{ conns []redis.Conn }

func newMeter(nodes []*testcluster.Node) (*meter, error) {
	const timeout = 5 * time.Second
	m := &meter{}
	for _, n := range nodes {
		conn, err := redis.Dial("tcp", n.DirectAddr(), redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout))
		if err != nil {
			m.close()
			return nil, err
		}
		m.conns = append(m.conns, conn)
	}
	return m, nil
}

func (m *meter) close() {
	for _, conn := range m.conns {
		_ = conn.Close()
	}
}

// A reading is where a measurement begins.
type reading struct{ at, own load }

// begin reads twice: the difference is what a reading costs by itself.
func (m *meter) begin() (reading, error) {
	first, err := m.read()
	if err != nil {
		return reading{}, err
	}
	second, err := m.read()
	return reading{second, second.minus(first)}, err
}

// since returns what the servers have done since then, without what the meter asked of them.
func (m *meter) since(r reading) (load, error) {
	now, err := m.read()
	return now.minus(r.at).minus(r.own), err
}

func (m *meter) read() (sum load, err error) {
	for _, conn := range m.conns {
		err = errors.Join(err, conn.Send("INFO", "cpu"), conn.Send("INFO", "stats"), conn.Send("INFO", "commandstats"), conn.Flush())
	}
	for _, conn := range m.conns {
		for range 3 {
			info, e := redis.String(conn.Receive())
			if e != nil {
				return load{}, errors.Join(err, e)
			}
			one, e := parseInfo(info)
			sum, err = sum.plus(one), errors.Join(err, e)
		}
	}
	return sum, err
}

// parseInfo reads a section of INFO.
func parseInfo(info string) (l load, err error) {
	for _, line := range strings.Split(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		var to *int64
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			f, e := strconv.ParseFloat(value, 64)
			if e != nil {
				return l, fmt.Errorf("INFO: %q: %w", line, e)
			}
			l.cpu += time.Duration(f * float64(time.Second))
			continue
		case "total_commands_processed":
			to = &l.commands
		case "cmdstat_evalsha":
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			to = &l.scripts
		case "total_reads_processed":
			to = &l.reads
		case "total_connections_received":
			to = &l.dials
		default:
			continue
		}
		if *to, err = strconv.ParseInt(value, 10, 64); err != nil {
			return l, fmt.Errorf("INFO: %q: %w", line, err)
		}
	}
	return l, nil
}
