// Command etcd runs one embedded etcd member on free loopback ports until its input ends.
// It prints the address for clients when it serves them.
//
// It is a module of its own: an etcd server brings more dependencies with it than
// everything else that is compared.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "bench-etcd-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := embed.StartEtcd(config(dir))
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err = <-server.Err():
		return err
	case <-time.After(30 * time.Second):
		return errors.New("not ready after 30 s")
	}
	if _, err = fmt.Fprintln(out, server.Clients[0].Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// config is etcd's default but for the addresses, the folder and the log.
func config(dir string) *embed.Config {
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "fatal" // Being closed is an error to it.
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{free}, []url.URL{free}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{free}, []url.URL{free}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	return c
}
