package testcluster

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"time"
)

// DialHidden is a connection to a proxy that passes requests on one by one, each over a connection that works at the
// time, to the address of then: no client notices that the server was restarted. It can pass on no messages, so it
// refuses SUBSCRIBE.
func DialHidden(addr func() string) net.Conn {
	client, proxy := newPipe()
	go func() {
		defer func() { _ = proxy.Close() }()
		h := hidden{addr: addr}
		defer h.close()
		in := bufio.NewReader(proxy)
		for {
			request, err := readValue(in)
			if err != nil {
				return
			}
			reply := []byte("-ERR unknown command\r\n")
			if !bytes.Contains(request, []byte("\r\nSUBSCRIBE\r\n")) {
				reply = h.pass(request)
			}
			if _, err = proxy.Write(reply); err != nil {
				return
			}
		}
	}()
	return client
}

// A hidden is what is behind such a proxy.
type hidden struct {
	addr   func() string
	server net.Conn
	at     string // Its address.
	in     *bufio.Reader
}

// pass hands a request to the server, again if its connection breaks, and returns the reply. After a while it gives up.
func (h *hidden) pass(request []byte) []byte {
	for range 500 {
		if reply, err := h.try(request); err == nil {
			return reply
		}
		h.close()
		time.Sleep(10 * time.Millisecond)
	}
	return []byte("-ERR the server is away\r\n")
}

func (h *hidden) try(request []byte) ([]byte, error) {
	if now := h.addr(); h.server == nil || h.at != now {
		h.close()
		server, err := net.Dial("tcp", now)
		if err != nil {
			return nil, err
		}
		h.server, h.at, h.in = server, now, bufio.NewReader(server)
	}
	if _, err := h.server.Write(request); err != nil {
		return nil, err
	}
	return readValue(h.in)
}

func (h *hidden) close() {
	if h.server != nil {
		_ = h.server.Close()
		h.server = nil
	}
}

// readValue reads a value of RESP as it is.
func readValue(in *bufio.Reader) ([]byte, error) {
	all, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(all[1:])))
	switch {
	case all[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		_, err = io.ReadFull(in, text)
		return append(all, text...), err
	case all[0] == '*':
		for range n {
			part, err := readValue(in)
			if err != nil {
				return nil, err
			}
			all = append(all, part...)
		}
	}
	return all, nil
}
