package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock/stored"
)

// lookScript reads everything about one resource in one step.
//
//	KEYS  the resource's key, its line, its counter
//	ARGV  how many of the line to name
//	{value or nil, pttl, length of the line or -1, {channel, since, …}, counter, {s, µs}}
//
// Of a long value only the beginning, which is no token. -1: the user may not read the line.
const lookScript = `
local v = redis.pcall('GET', KEYS[1])
if type(v) == 'table' then return v end
local left, count, first, fence = -2, -1, {}, ''
if v then left = redis.call('PTTL', KEYS[1]) end
local n = redis.pcall('ZCARD', KEYS[2])
if type(n) == 'number' then count = n end
if count > 0 and ARGV[1] ~= '0' then
  local some = redis.pcall('ZRANGE', KEYS[2], 0, ARGV[1] - 1, 'WITHSCORES')
  if not some.err then first = some end
end
local c = redis.pcall('GET', KEYS[3])
if type(c) == 'string' and #c <= 20 then fence = c end
return {v and string.sub(v, 1, 256), left, count, first, fence, redis.call('TIME')}
`

// A sight is what one node stores for a resource.
type sight struct {
	node    string
	err     error
	took    time.Duration
	token   string        // "": nobody holds the resource here
	ttl     time.Duration // of the key; negative: it does not expire
	fence   int64         // the last one given; 0: none, or not known
	queued  int           // how many wait; -1: not known
	waiters []waiter      // the first of them
}

// A waiter is a process that waits for a resource.
type waiter struct {
	name  string
	since time.Duration // for how long
}

// A view is what all nodes store for a resource.
type view struct {
	resource  string
	semaphore string // of which the resource is the slot; "": none
	slot      int
	need      int
	sights    []sight
}

// shownWaiters is how many waiters are named.
const shownWaiters = 20

// look asks all nodes about resources, and returns a view of each. Nodes are asked at the same
// time.
func look(ctx context.Context, peers []*peer, k stored.Keys, resources []string, waiters int) []view {
	views, requests := make([]view, len(resources)), make([]request, len(resources))
	for i, res := range resources {
		views[i] = view{resource: res, need: len(peers)/2 + 1, sights: make([]sight, len(peers))}
		requests[i] = request{"EVAL", []any{lookScript, 3, k.Lock(res), k.Line(res), k.Counter(res), waiters}}
	}
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() {
			begun := time.Now()
			answers, err := p.do(ctx, requests...)
			took := time.Since(begun)
			for j := range views {
				s := sight{err: err}
				if err == nil {
					s = decodeSight(answers[j], k)
				}
				s.node, s.took = p.node.Name, took
				views[j].sights[i] = s
			}
		})
	}
	wg.Wait()
	return views
}

// decodeSight reads the answer to lookScript.
func decodeSight(answer any, k stored.Keys) sight {
	if err, ok := answer.(redis.Error); ok {
		return sight{err: err}
	}
	s := sight{}
	var left int64
	var fence string
	var line []string
	var now []int64
	parts, err := redis.Values(answer, nil)
	if err == nil {
		_, err = redis.Scan(parts, &s.token, &left, &s.queued, &line, &fence, &now)
	}
	if err != nil || len(now) != 2 {
		return sight{err: errMeaningless}
	}
	s.ttl = msOf(left)
	s.fence, _ = strconv.ParseInt(fence, 10, 64)
	for i := 0; i+1 < len(line); i += 2 {
		since, _ := strconv.ParseFloat(line[i+1], 64)
		waited := time.Duration(float64(now[0])*1e6+float64(now[1])-since) * time.Microsecond
		s.waiters = append(s.waiters, waiter{k.Waiter(line[i]), max(waited, 0)})
	}
	return s
}

// errMeaningless is the error of an answer that no server gives.
var errMeaningless = errors.New("an answer that means nothing")

// A holding is a token that holds a resource, and on how many nodes.
type holding struct {
	token string
	nodes int
	ttl   time.Duration // until fewer than a quorum of its keys are left, or the first of fewer
}

// holdings are the tokens on the nodes, the one with most nodes first.
func (v *view) holdings() []holding {
	ttls := make(map[string][]time.Duration)
	var order []string
	for _, s := range v.sights {
		if s.err != nil || s.token == "" {
			continue
		}
		if ttls[s.token] == nil {
			order = append(order, s.token)
		}
		ttls[s.token] = append(ttls[s.token], s.ttl)
	}
	found := make([]holding, len(order))
	for i, token := range order {
		left := ttls[token]
		slices.SortFunc(left, func(a, b time.Duration) int { return longer(b, a) })
		found[i] = holding{token, len(left), left[min(v.need, len(left))-1]}
	}
	slices.SortStableFunc(found, func(a, b holding) int { return b.nodes - a.nodes })
	return found
}

// longer compares the lives of keys: one that does not expire, which is negative, is longer than all others.
func longer(a, b time.Duration) int { return cmp.Compare(uint64(a), uint64(b)) }

// held is the token that a quorum of the nodes has.
func (v *view) held() (holding, bool) {
	if found := v.holdings(); len(found) > 0 && found[0].nodes >= v.need {
		return found[0], true
	}
	return holding{}, false
}

// unknown reports whether so many nodes have not answered that they may hold a lock.
func (v *view) unknown() bool {
	if _, ok := v.held(); ok {
		return false
	}
	silent, most := 0, 0
	for _, s := range v.sights {
		if s.err != nil {
			silent++
		}
	}
	if found := v.holdings(); len(found) > 0 {
		most = found[0].nodes
	}
	return silent+most >= v.need && silent > 0
}

// fence is the largest fencing token on the nodes.
func (v *view) fence() int64 {
	largest := int64(0)
	for _, s := range v.sights {
		largest = max(largest, s.fence)
	}
	return largest
}

// waiting is how many wait: the largest number of one node, -1 if none says it.
func (v *view) waiting() int {
	most := -1
	for _, s := range v.sights {
		if s.err == nil {
			most = max(most, s.queued)
		}
	}
	return most
}

// waiters are those that wait, with how long, and on how many nodes they stand in line.
func (v *view) waiters() []waiterJSON {
	var all []waiterJSON
	for _, s := range v.sights {
		for _, w := range s.waiters {
			i := slices.IndexFunc(all, func(j waiterJSON) bool { return j.Name == w.name })
			if i < 0 {
				all, i = append(all, waiterJSON{Name: w.name}), len(all)
			}
			all[i].Nodes++
			all[i].WaitedMS = max(all[i].WaitedMS, w.since.Milliseconds())
		}
	}
	slices.SortFunc(all, func(a, b waiterJSON) int { return int(b.WaitedMS - a.WaitedMS) })
	return all
}
