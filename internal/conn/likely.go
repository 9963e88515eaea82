package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// When an address leads to a port that speaks something else, the error is about bytes. This file names the likely
// cause.

// Explain adds the likely cause to the error of an attempt to connect, if the error alone shows it.
func Explain(err error) error { return likely(err, nil) }

// Explain adds the likely cause to the error of an attempt to connect that failed on this connection.
func (w *Wire) Explain(err error) error { return likely(err, w.socket) }

// likely adds the likely cause. s is the socket, nil if it is not known.
func likely(err error, s *socket) error {
	if already := (*likelyError)(nil); errors.As(err, &already) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err // It says enough, and a goroutine that redigo has left behind may still read from the socket.
	}
	if strings.Contains(err.Error(), "TLS handshake timeout") { // As above.
		return &likelyError{"the server does not answer the TLS handshake: the port may not speak TLS (redis:// instead of rediss://)", err}
	}
	if cause := likelyCause(err, s); cause != "" {
		return &likelyError{cause, err}
	}
	return err
}

// A likelyError is an error with its likely cause.
type likelyError struct {
	cause string
	err   error
}

func (e *likelyError) Error() string { return e.cause + ": " + e.err.Error() }

func (e *likelyError) Unwrap() error { return e.err }

func likelyCause(err error, s *socket) string {
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
		if strings.HasPrefix(string(record.RecordHeader[:]), "HTTP") {
			return "the port speaks HTTP, not Redis"
		}
		return "the port does not speak TLS (use redis:// instead of rediss://, or no DialUseTLS)"
	}
	first, plain := "", true
	if s != nil {
		first, plain = s.first, !s.isSecured()
	}
	switch {
	case isUnknown(err, "SELECT"):
		return "the server has no databases (a Sentinel has none, it stores no locks)"
	case isProtocolError(err) && (s == nil || !plain):
		return "the port does not seem to speak Redis"
	case !plain && first == "" && isHungUp(err):
		return "the server hung up in the TLS handshake: the port may not speak TLS (redis:// instead of rediss://)"
	case !plain && isHungUp(err): // It has answered the handshake, but other servers reset as well.
		return "the server hung up after the TLS handshake: the port does not seem to speak Redis"
	case !plain:
		return ""
	case strings.HasPrefix(first, "HTTP"):
		return "the port speaks HTTP, not Redis"
	case first != "" && (first[0] == 0x15 || first[0] == 0x16): // An alert or a handshake.
		return "the port speaks TLS (use rediss://, or DialUseTLS)"
	case first != "" && !strings.ContainsRune("+-:$*", rune(first[0])):
		return fmt.Sprintf("the port does not speak Redis, it began with %q", first)
	case s != nil && first == "" && isHungUp(err):
		return "the server hung up before it answered anything: it may expect TLS (rediss://), or be a proxy that does not know SCRIPT or has no server"
	default:
		return ""
	}
}

// A refusal is the end of a connection whose server has said why: it refuses the client (protected mode, maxclients),
// or is a proxy that has lost its own server.
type refusal struct {
	said string
	err  error
}

func (e *refusal) Error() string { return fmt.Sprintf("the server said %q and hung up", e.said) }

func (e *refusal) Unwrap() error { return e.err }

// IsRefusal reports whether the server had said why before it hung up.
func IsRefusal(err error) bool {
	return errors.As(err, new(*refusal))
}

// Said returns the part of a server's error that may be repeated.
func Said(err error) string {
	said := WithoutArguments(err).Error()
	return said[:min(len(said), 200)]
}

// listen takes the error of a reply. If the server has hung up, it returns the server's last error reply as the reason.
func (w *Wire) listen(err error) error {
	switch {
	case IsReply(err):
		w.said = Said(err)
	case w.said != "" && isHungUp(err):
		return &refusal{w.said, err}
	default:
		w.said = ""
	}
	return err
}

// lastWords returns why nothing can be sent: the unread error reply of a server that has hung up, or else err.
func (w *Wire) lastWords(err error) error {
	const arrived = 10 * time.Millisecond // It has arrived before the end of the connection.
	if !isHungUp(err) {
		return err
	}
	for {
		if _, last := w.Receive(arrived); last != nil && !IsReply(last) {
			if IsRefusal(last) {
				return last
			}
			return err
		}
	}
}

// isHungUp reports whether the peer has closed the connection.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// isProtocolError reports whether the server's bytes were no reply.
func isProtocolError(err error) bool {
	return errors.Is(err, ErrLongReply) || errors.Is(err, errNoReply) || strings.Contains(err.Error(), "possible server error")
}

// explainUnknown adds what the server is to an error that says it does not know a command that every Redis knows. It
// asks the server, so no answer may be outstanding.
func (w *Wire) explainUnknown(ctx context.Context, err error) error {
	if !isUnknown(err, "SCRIPT") {
		return err
	}
	answers, broken := w.Exchange(ctx, [][]any{{"ROLE"}})
	if broken == nil {
		if role, _ := redis.Values(answers[0].Reply, answers[0].Err); len(role) > 0 && fmt.Sprintf("%s", role[0]) == "sentinel" {
			return &likelyError{"it is a Sentinel, which stores no locks (take the addresses of masters)", err}
		}
	}
	return &likelyError{"it may be a proxy (take the addresses of the masters behind it)", err}
}

// unknownRE matches the reply to a command that a server does not know.
var unknownRE = regexp.MustCompile("(?i)unknown command ['`]([^'`]*)['`]")

func isUnknown(err error, command string) bool {
	found := unknownRE.FindStringSubmatch(err.Error())
	return found != nil && strings.EqualFold(found[1], command)
}

// WithoutArguments cuts the arguments from a reply that a command is unknown: they may be a token, or a whole script.
func WithoutArguments(err error) error {
	reply, ok := err.(redis.Error) //nolint:errorlint // A wrapped error has a text of its own.
	if !ok || !unknownRE.MatchString(string(reply)) {
		return err
	}
	text, _, _ := strings.Cut(string(reply), ", with args beginning with")
	return redis.Error(text)
}
