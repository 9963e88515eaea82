package redlockcertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/caddyserver/certmagic"

	redlockcertmagic "github.com/seed6c881748/redlock/integrations/certmagic"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Each process of a fleet has such a storage. All share the folder.
func Example() {
	ctx := context.Background()
	r, folder, end := connect()
	defer end()

	files := &certmagic.FileStorage{Path: folder}
	storage := redlockcertmagic.New(files, r, 30*time.Second, redlock.WithOwner("web-1"))
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
	})
	defer cache.Stop()
	config = certmagic.New(cache, certmagic.Config{Storage: storage})
	// ... config.ManageSync(ctx, domains), and servers with config.TLSConfig() ...

	// What certmagic does with it, and what can be seen meanwhile:
	if err := config.Storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	seen, err := r.Inspect(ctx, "certmagic:issue_cert_example.com")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked by", seen.Owner)
	if err := config.Storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	// Output: locked by web-1
}

// connect returns a Redlock on three nodes in memory, and a folder.
func connect() (r *redlock.Redlock, folder string, end func()) {
	cluster, err := testcluster.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	var nodes []redlock.Node
	for _, addr := range cluster.Addrs() {
		nodes = append(nodes, redlock.NewNode(addr))
	}
	r, err = redlock.New(nodes, redlock.WithNodeTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	if folder, err = os.MkdirTemp("", "certmagic"); err != nil {
		log.Fatal(err)
	}
	return r, folder, func() {
		_ = r.Close(context.Background())
		_ = cluster.Close()
		_ = os.RemoveAll(folder)
	}
}
