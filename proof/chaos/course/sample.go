package course

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// Samples is how many samples a run has, if it is not so short that they would be nearer than 50 ms.
const Samples = 100

// sample has all processes tell how much they use, again and again until the end of the plan, and tells of the servers.
func (r *run) sample(begin time.Duration) {
	every := max(r.Plan.Duration/Samples, 50*time.Millisecond)
	for tick := int64(1); time.Duration(tick)*every < r.Plan.Duration && r.until(begin+time.Duration(tick)*every); tick++ {
		for _, c := range r.everybody() {
			if p := c.now.Load(); p != nil {
				_ = p.Say(protocol.Command{Do: protocol.Sample, Tick: tick})
			}
		}
		r.observer.Log(history.Event{Kind: history.Sample, Value: tick, Figures: r.figures()})
	}
}

// figures are those of the servers, of all of them together. One that is down or frozen says nothing: then there are none
// but the connections, which the conductor knows.
func (r *run) figures() map[string]float64 {
	connections := 0
	for _, n := range r.nodes {
		for _, w := range n.ways {
			connections += w.Conns()
		}
	}
	figures := map[string]float64{"connections": float64(connections)}
	keys := 0.0
	for _, n := range r.nodes {
		k, err := usage(n.DirectAddr())
		if err != nil {
			return figures
		}
		keys += k
	}
	figures["server-keys"] = keys
	return figures
}

// usage is how many keys a server has.
func usage(addr string) (float64, error) {
	const within = 200 * time.Millisecond
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(within), redis.DialReadTimeout(within))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	size, err := redis.Int64(conn.Do("DBSIZE"))
	return float64(size), err
}
