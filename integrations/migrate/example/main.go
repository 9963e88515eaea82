// Command example migrates a MariaDB or MySQL. Start it on as many machines as you like, at the same
// time:
//
//	DATABASE='user@tcp(host)/orders' REDLOCK_NODES=redis1:6379,redis2:6379,redis3:6379 go run .
package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	redlockmigrate "github.com/seed6c881748/redlock/integrations/migrate"
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
	db, err := sql.Open("mysql", database)
	if err != nil {
		return err
	}
	driver, err := mysql.WithInstance(db, &mysql.Config{})
	if err != nil {
		return errors.Join(err, db.Close())
	}

	locked := redlockmigrate.New(driver, r, "migrate:orders", time.Minute)
	locked.Wait = 5 * time.Minute
	source, err := iofs.New(files, "migrations")
	if err != nil {
		return errors.Join(err, locked.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "mysql", locked)
	if err != nil {
		return errors.Join(err, locked.Close())
	}
	m.LockTimeout = 6 * time.Minute
	defer func() {
		sourceErr, databaseErr := m.Close()
		err = errors.Join(err, sourceErr, databaseErr)
	}()
	if err = m.Up(); errors.Is(err, migrate.ErrNoChange) {
		fmt.Println("nothing to do")
		return nil
	}
	return err
}
