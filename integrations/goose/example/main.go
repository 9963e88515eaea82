// Command example migrates a PostgreSQL. Start it on as many machines as you like, at the same time:
//
//	DATABASE=postgres://user@host/orders REDLOCK_NODES=redis1:6379,redis2:6379,redis3:6379 go run .
package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"
	"time"

	_ "github.com/lib/pq" // The driver "postgres".
	"github.com/pressly/goose/v3"

	redlockgoose "github.com/seed6c881748/redlock/integrations/goose"
	"github.com/seed6c881748/redlock/redlock"
)

//go:embed migrations/*.sql
var files embed.FS

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE"), strings.Split(os.Getenv("REDLOCK_NODES"), ",")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, database string, addrs []string) (err error) {
	nodes := make([]redlock.Node, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redlock.NewNode(addr)
	}
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.WithoutCancel(ctx))) }()
	db, err := sql.Open("postgres", database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	locker := redlockgoose.New(r, "migrate:orders", time.Minute)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return err
	}
	fmt.Println(len(results), "migrations were to be done")
	return nil
}
