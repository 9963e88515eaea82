package redlockcertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/caddyserver/certmagic"

	redlockcertmagic "github.com/seed6c881748/redlock/integrations/certmagic"
	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// Each process of a fleet has such a storage. All share the folder.
func Example() {
	ctx := context.Background()
	r, end := nodetest.Example() // On three nodes in memory.
	defer end()
	folder, err := os.MkdirTemp("", "certmagic")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

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
	if err = config.Storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	seen, err := r.Inspect(ctx, "certmagic:issue_cert_example.com")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked by", seen.Owner)
	if err = config.Storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	// Output: locked by web-1
}
