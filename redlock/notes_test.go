package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// told keeps what a client was told of sets.
type told []string

func (to *told) hook(_ context.Context, e Event) {
	if e.Set != nil {
		*to = append(*to, fmt.Sprintf("%s -%s +%s %v%s", e.Kind, strings.Join(e.Set.OnlyHere, ","), strings.Join(e.Set.OnlyThere, ","),
			e.Set.QuorumsMeet, strings.Join(e.Set.Twice, ",")))
	}
}

// some are those of the nodes a, b, c … that are named, each by its letter.
func some(c *testcluster.Cluster, names string) (nodes []Node) {
	for _, name := range names {
		nodes = append(nodes, Node{Name: string(name), Pool: c.Nodes[name-'a'].Pool()})
	}
	return nodes
}

// client has the nodes that are named.
func client(t *testing.T, c *testcluster.Cluster, names string, opts ...Option) (r *Redlock, to *told) {
	t.Helper()
	to = new(told)
	r = newOver(t, some(c, names), append(opts, WithHook(to.hook), WithOwner(names))...)
	warm(t, r)
	return r, to
}

// withSets has five nodes that tell who they are.
func withSets(t *testing.T, fn func(t *testing.T, c *testcluster.Cluster)) {
	t.Helper()
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			require.NoError(t, n.ShowUptime())
		}
		time.Sleep(time.Hour)
		fn(t, c)
	})
}

func TestClientsOfANodeAreToldWhoseSetDiffers(t *testing.T) {
	for _, test := range []struct{ fleet, told string }{
		{"abc abc abc", "- - -"},
		{"abc cab bca", "- - -"},
		{"abc abc cde", "-a,b +d,e false;-a,b +d,e false;-d,e +a,b false"},
		{"abc abd", "-c +d false;-d +c false"},
		{"abc abcde", "- +d,e false;-d,e + false"},
		{"abc abcd", "- +d true;-d + true"},
		{"abcd bcd", "-a + true;- +a true"},
		{"a ab", "- +b true;-b + true"},
		{"a abc", "- +b,c false;-b,c + false"},
		{"abc d", "-;-"},
	} {
		t.Run(test.fleet, func(t *testing.T) {
			withSets(t, func(t *testing.T, c *testcluster.Cluster) {
				var all []*told
				for _, names := range strings.Fields(test.fleet) {
					_, to := client(t, c, names)
					all = append(all, to)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				var got []string
				for _, to := range all {
					text := strings.ReplaceAll(strings.Join(*to, "|"), "sets differ ", "")
					if text == "" {
						text = "-"
					}
					got = append(got, text)
				}
				assert.Equal(t, strings.ReplaceAll(test.told, "- - -", "-;-;-"), strings.Join(got, ";"))
			})
		})
	}
}

func TestADifferenceIsTold(t *testing.T) {
	withSets(t, func(t *testing.T, c *testcluster.Cluster) {
		r, to := client(t, c, "abc")
		other, _ := client(t, c, "abd")
		require.Empty(t, r.Stats().Sets)
		start := time.Now()
		time.Sleep(time.Minute)
		all := r.Stats().Sets
		require.Len(t, all, 1)
		d := all[0]
		assert.WithinRange(t, d.Since, start, start.Add(25*time.Second))
		assert.WithinRange(t, d.Seen, start.Add(45*time.Second), start.Add(time.Minute))
		assert.Contains(t, []string{"a", "b"}, d.Node)
		assert.Equal(t, "abd, a client of x with 3 nodes, has d instead of c: both can get a lock at once, "+
			"unless the prefixes or resources differ on purpose: then WithSetName says so", strings.Replace(d.String(), "of "+d.Node, "of x", 1))
		d.Node, d.Since, d.Seen = "", time.Time{}, time.Time{}
		assert.Equal(t, SetDifference{
			Who: "abd", Nodes: []string{"a", "b", "d"}, OnlyHere: []string{"c"}, OnlyThere: []string{"d"},
		}, d)
		once := r.compareSets(t.Context())
		require.NotEmpty(t, once)
		assert.Equal(t, []string{"c"}, once[0].OnlyHere)

		// It is over once nobody has that set.
		require.NoError(t, other.Close(t.Context()))
		time.Sleep(80 * time.Second)
		assert.Len(t, *to, 1)
		assert.Len(t, r.Stats().Sets, 1)
		time.Sleep(40 * time.Second)
		assert.Equal(t, told{"sets differ -c +d false", "sets agree -c +d false"}, *to)
		assert.Empty(t, r.Stats().Sets)
		var kinds []EventKind
		for _, e := range r.RecentEvents() {
			if e.Set != nil {
				kinds = append(kinds, e.Kind)
			}
		}
		assert.Equal(t, []EventKind{EventSetsDiffer, EventSetsAgree}, kinds)
	})
}
