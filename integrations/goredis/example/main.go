// Command example is a service on go-redis, with TLS and a token that changes, which takes its locks
// with redlock. All that redlock is told of the servers is its go-redis clients.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redlockgoredis "github.com/seed6c881748/redlock/integrations/goredis"
	"github.com/seed6c881748/redlock/redlock"
)

func main() {
	addrs := flag.String("addrs", "10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379", "independent Redis masters")
	ca := flag.String("ca", "ca.pem", "a file with the certificates to trust")
	token := flag.String("token", "token", "a file with the current password")
	flag.Parse()
	clients, err := connect(strings.Split(*addrs, ","), *ca, *token)
	if err != nil {
		log.Fatal(err)
	}
	b, err := newBilling(clients)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	number, err := b.invoice(ctx, "42")
	if err = errors.Join(err, b.locks.Close(ctx)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoice", number)
}

// connect is what the service has had all along. Something else writes a new token to the file
// before the old one expires.
func connect(addrs []string, ca, token string) ([]*redis.Client, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + ca)
	}
	var clients []*redis.Client
	for _, addr := range addrs {
		if addr == "" { // go-redis would take localhost.
			return nil, errors.New("an empty address: is a variable unset?")
		}
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr:      addr,
			TLSConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
			CredentialsProviderContext: func(context.Context) (user, password string, err error) {
				current, err := os.ReadFile(token)
				return "app", strings.TrimSpace(string(current)), err
			},
		}))
	}
	return clients, nil
}

// billing has its data on the first server, and its locks on all of them: so it can lock when one is
// down.
type billing struct {
	data  *redis.Client
	locks *redlock.Redlock
}

func newBilling(clients []*redis.Client) (*billing, error) {
	var nodes []redlock.Node
	for _, client := range clients {
		nodes = append(nodes, redlockgoredis.Node(client))
	}
	locks, err := redlock.New(nodes)
	if err != nil {
		return nil, err
	}
	return &billing{clients[0], locks}, nil
}

// invoice returns the next number of an account's invoices.
func (b *billing) invoice(ctx context.Context, account string) (int, error) {
	key, number := "invoices:"+account, 0
	err := b.locks.Do(ctx, []string{"account:" + account}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		last, readErr := b.data.Get(ctx, key).Int()
		if readErr != nil && !errors.Is(readErr, redis.Nil) {
			return readErr
		}
		number = last + 1
		return b.data.Set(ctx, key, number, 0).Err()
	})
	return number, err
}
