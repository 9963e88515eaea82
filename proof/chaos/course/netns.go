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
	return command("unshare", "--net", "nsenter", "--net=/proc/self/ns/net", "ip", "link")
}

// A namespace is the network of one client: a cable leads to the nodes, and can be pulled out. It has no name, so it is
// gone, with the cable, as soon as no process is in it. One is there for as long as the conductor holds its stdin.
type namespace struct {
	tenant   *exec.Cmd
	stdin    io.Closer
	cable    string
	nodes    []string // Where the nodes are, seen from there.
	observer string   // The path of the observer's socket, which no network cuts off.
	relays   []net.Listener
}

// newNamespace returns when the tenant is in its namespace: then it says so.
func newNamespace() (*namespace, error) {
	n := &namespace{tenant: exec.Command("unshare", "--net", "sh", "-c", "echo; exec cat")}
	stdin, err := n.tenant.StdinPipe()
	if err != nil {
		return nil, err
	}
	n.stdin = stdin
	out, err := n.tenant.StdoutPipe()
	if err == nil {
		err = n.tenant.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	return n, err
}

// enter makes a command one that runs in the namespace.
func (n *namespace) enter(args ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", n.tenant.Process.Pid)}, args...)
}

// layCable gives the last client a network of its own, if the plan cuts it off.
func (r *run) layCable() (err error) {
	if !r.Plan.Has(plan.Netns) {
		return nil
	}
	n, err := newNamespace()
	if err != nil {
		return err
	}
	r.namespace = n
	id := os.Getpid() % 10000
	n.cable, n.observer = fmt.Sprint("chaos", id, "a"), filepath.Join(r.dir, "observer")
	// A network of four addresses, of those that are meant for tests.
	host, guest := fmt.Sprintf("198.18.%d.1", id%250), fmt.Sprintf("198.18.%d.2/30", id%250)
	far := fmt.Sprint("chaos", id, "b")
	for _, args := range [][]string{
		{"ip", "link", "add", n.cable, "type", "veth", "peer", "name", far, "netns", fmt.Sprint(n.tenant.Process.Pid)},
		{"ip", "addr", "add", host + "/30", "dev", n.cable},
		{"ip", "link", "set", n.cable, "up"},
		n.enter("ip", "addr", "add", guest, "dev", far),
		n.enter("ip", "link", "set", far, "up"),
	} {
		if err = command(args...); err != nil {
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
	return command("ip", "link", "set", n.cable, map[bool]string{true: "up", false: "down"}[in])
}

func (n *namespace) close() {
	for _, ln := range n.relays {
		_ = ln.Close()
	}
	_ = n.stdin.Close()
	_ = n.tenant.Wait()
}

func command(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("course: %v: %w: %s", args, err, out)
	}
	return nil
}
