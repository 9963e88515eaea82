package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
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
	numbers, errs := make(chan int, instances*invoices), make(chan error, instances)
	for range instances {
		go func() { errs <- issue(t.Context(), clients, invoices, numbers) }()
	}
	for range instances {
		require.NoError(t, <-errs)
	}
	for _, client := range clients {
		require.NoError(t, client.Close())
	}
	close(numbers)
	var got []int
	for number := range numbers {
		got = append(got, number)
	}
	assert.ElementsMatch(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got)
}

// issue is an instance that makes n invoices.
func issue(ctx context.Context, clients []*redis.Client, n int, numbers chan<- int) error {
	b, err := newBilling(clients)
	if err != nil {
		return err
	}
	for range n {
		var number int
		if number, err = b.invoice(ctx, "42"); err != nil {
			return err
		}
		numbers <- number
	}
	return b.locks.Close(ctx)
}
