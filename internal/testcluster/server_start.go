package testcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// patience is how long a server may take to start, or for a command: a busy machine isn't a failing one.
	patience      = 2 * time.Minute
	startAttempts = 20
)

// errPortTaken tells that the server could not listen on its port.
var errPortTaken = errors.New("the port is taken")

func directTimeouts() []redis.DialOption {
	return []redis.DialOption{
		redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience),
	}
}

// startAnywhere starts the server on a free port. It tries another one when
// somebody takes the port before the server does.
func (s *realServer) startAnywhere() (err error) {
	for range startAttempts {
		if err = s.takePorts(); err != nil {
			break
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return s.wrap(err)
}

// takePorts has the server use other ports than before. They are its own until close.
func (s *realServer) takePorts() (err error) {
	for _, port := range []*int{&s.port, &s.tlsPort} {
		if *port, err = ports.take(); err != nil {
			return err
		}
		s.taken = append(s.taken, *port)
	}
	return nil
}

// startAgain starts the server on the port it had.
func (s *realServer) startAgain() error {
	var err error
	for range startAttempts {
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return s.wrap(err)
}

// start starts the process and waits until it answers.
func (s *realServer) start() error {
	if err := os.MkdirAll(s.dataDir(), 0o700); err != nil {
		return err
	}
	if err := os.Remove(s.logPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.Command(s.bin, s.args()...)
	cmd.Env = append(os.Environ(), s.opts.env...)
	proc, err := StartProcess(cmd, s.logPath())
	if err != nil {
		return err
	}
	s.proc = proc
	deadline := time.Now().Add(patience)
	for {
		err := s.ping()
		if err == nil {
			return nil
		}
		select {
		case <-proc.Gone:
			return s.startError(errors.New("the server ended at once"))
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			proc.Kill()
			return s.startError(err)
		}
	}
}

func (s *realServer) args() []string {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dataDir(), "--daemonize", "no",
		"--save", "", "--appendonly", "no",
	}
	if s.opts.config != "" {
		args = append([]string{s.opts.config}, args[:len(args)-4]...)
	}
	if s.opts.appendOnly {
		// While an fsync is under way, a server with the default writes up to two seconds after it has answered.
		args[len(args)-1] = "yes"
		args = append(args, "--appendfsync", "no")
	}
	if s.opts.unixSocket {
		args = append(args, "--unixsocket", s.socket())
	}
	if s.opts.tls != nil {
		args = append(args, "--tls-port", strconv.Itoa(s.tlsPort), "--tls-auth-clients", "no",
			"--tls-cert-file", s.cert, "--tls-key-file", s.key, "--tls-ca-cert-file", s.cert)
	}
	return append(args, s.opts.args...)
}

// ping returns nil if our process answers on the port.
func (s *realServer) ping() error {
	if _, err := s.do("PING"); err != nil {
		// A server that wants a password is up all the same.
		if strings.HasPrefix(err.Error(), "NOAUTH") && !s.proc.Ended() {
			return nil
		}
		return err
	}
	// A foreign server may listen on the port while ours fails to.
	info, err := redis.String(s.do("INFO", "server"))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("process_id:%d\r\n", s.proc.Cmd.Process.Pid); !strings.Contains(info, want) {
		return errPortTaken
	}
	return nil
}

// startError explains a failed start with the end of the server's log.
func (s *realServer) startError(err error) error {
	log, readErr := os.ReadFile(s.logPath())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	switch {
	case bytes.Contains(log, []byte("already in use")):
		err = errPortTaken
	case s.opts.tls != nil && bytes.Contains(log, []byte("tls-")):
		err = fmt.Errorf("%w (this one has no TLS)", ErrNoServer)
	}
	const tail = 1000
	return fmt.Errorf("%s: %w: %s", s.bin, err, bytes.TrimSpace(log[max(0, len(log)-tail):]))
}
