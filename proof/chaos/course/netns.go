package course

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
)

// HasNamespaces reports whether a client can have a network of its own here, or why not.
func HasNamespaces() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	name := fmt.Sprint("chaos-try-", os.Getpid())
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	return ip("netns", "del", name)
}

// A namespace is the network of one client: a cable leads to the nodes, and can be pulled out.
type namespace struct {
	name, cable string
	nodes       []string // Where the nodes are, seen from there.
	observer    string   // The path of the observer's socket, which no network cuts off.
	relays      []net.Listener
}

// layCable gives the last client a network of its own, if the plan cuts it off.
func (r *run) layCable() (err error) {
	if !r.Plan.Has(plan.Netns) {
		return nil
	}
	id := os.Getpid() % 10000
	n := &namespace{name: fmt.Sprint("chaos-", id), cable: fmt.Sprint("chaos", id, "a"), observer: filepath.Join(r.dir, "observer")}
	// A network of four addresses, of those that are meant for tests.
	host, guest := fmt.Sprintf("198.18.%d.1", id%250), fmt.Sprintf("198.18.%d.2/30", id%250)
	far := fmt.Sprint("chaos", id, "b")
	r.namespace = n
	for _, args := range [][]string{
		{"netns", "add", n.name},
		{"link", "add", n.cable, "type", "veth", "peer", "name", far, "netns", n.name},
		{"addr", "add", host + "/30", "dev", n.cable},
		{"link", "set", n.cable, "up"},
		{"-n", n.name, "addr", "add", guest, "dev", far},
		{"-n", n.name, "link", "set", far, "up"},
	} {
		if err = ip(args...); err != nil {
			return err
		}
	}
	if _, err = r.observer.Listen("unix", n.observer); err != nil {
		return err
	}
	for _, node := range r.nodes {
		if err = n.relay(host, node.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// relay makes a node reachable at the host's end of the cable.
func (n *namespace) relay(host, to string) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	n.relays = append(n.relays, ln)
	n.nodes = append(n.nodes, ln.Addr().String())
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go join(conn, to)
		}
	}()
	return nil
}

// join copies bytes between a connection and an address until either side ends, and breaks both then.
func join(conn net.Conn, to string) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{conn, server}, {server, conn}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// plug pulls the cable out, or puts it in again.
func (n *namespace) plug(in bool) error {
	return ip("link", "set", n.cable, map[bool]string{true: "up", false: "down"}[in])
}

func (n *namespace) close() {
	for _, ln := range n.relays {
		_ = ln.Close()
	}
	_ = ip("link", "del", n.cable)
	_ = ip("netns", "del", n.name)
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("course: ip %v: %w: %s", args, err, out)
	}
	return nil
}
