package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A load is what servers have done by their own account, all together.
type load struct {
	cpu                    time.Duration
	commands, reads, dials int64
}

func (l load) plus(o load) load {
	return load{l.cpu + o.cpu, l.commands + o.commands, l.reads + o.reads, l.dials + o.dials}
}

func (l load) minus(o load) load {
	return load{l.cpu - o.cpu, l.commands - o.commands, l.reads - o.reads, l.dials - o.dials}
}

// A meter asks servers what they have done. It keeps its connections: making one would
// count as well.
type meter struct{ conns []redis.Conn }

func newMeter(nodes []*testcluster.Node) (*meter, error) {
	const timeout = 5 * time.Second
	m := &meter{}
	for _, n := range nodes {
		conn, err := redis.Dial("tcp", n.DirectAddr(),
			redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout))
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
		err = errors.Join(err, conn.Send("INFO"), conn.Flush())
	}
	for _, conn := range m.conns {
		info, e := redis.String(conn.Receive())
		if e != nil {
			return load{}, errors.Join(err, e)
		}
		sum = sum.plus(parseInfo(info))
	}
	return sum, err
}

// parseInfo reads the figures of INFO. It has much else, which is no number.
func parseInfo(info string) load {
	figures := make(map[string]float64)
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = f
		}
	}
	return load{
		cpu:      time.Duration((figures["used_cpu_sys"] + figures["used_cpu_user"]) * float64(time.Second)),
		commands: int64(figures["total_commands_processed"]),
		reads:    int64(figures["total_reads_processed"]),
		dials:    int64(figures["total_connections_received"]),
	}
}
