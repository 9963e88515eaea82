package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
)

// Instances of the service work at the same time, and one of the servers is down, but no number is
// given twice.
func TestInvoicesAreNumbered(t *testing.T) {
	servers := nodetest.StartServers(t)
	servers.SetUser(t, "app", "the-token")
	require.NoError(t, servers.Nodes[2].Stop())
	tokenFile := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte("the-token\n"), 0o600))

	ca, _, err := servers.Certificate.Write(t.TempDir())
	require.NoError(t, err)
	var addrs []string
	for _, n := range servers.Nodes {
		addrs = append(addrs, n.TLSAddr())
	}
	clients, err := connect(addrs, ca, tokenFile)
	require.NoError(t, err)
	const instances, invoices = 3, 4
	numbers := make(chan int, instances*invoices)
	var all sync.WaitGroup
	for range instances {
		all.Go(func() {
			b, err := newBilling(clients)
			if !assert.NoError(t, err) {
				return
			}
			for range invoices {
				number, err := b.invoice(t.Context(), "42")
				if assert.NoError(t, err) {
					numbers <- number
				}
			}
			assert.NoError(t, b.locks.Close(t.Context()))
		})
	}
	all.Wait()
	close(numbers)
	for _, client := range clients {
		require.NoError(t, client.Close())
	}
	var got []int
	for number := range numbers {
		got = append(got, number)
	}
	assert.ElementsMatch(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got)
}
