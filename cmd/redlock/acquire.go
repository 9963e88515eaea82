package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) acquireCommand() *cobra.Command {
	f := &runFlags{}
	var file string
	cmd := manual("acquire")
	cmd.Args = some("resource")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.complete(cmd.Flags().Changed, t.global.quarantine); err != nil {
			return err
		}
		if file == "" { // A variable of a script is empty: the token would go to a log.
			return usagef("--token-file: no name")
		}
		if err := checkPermits(cmd, f.permits, len(args)); err != nil {
			return err
		}
		if f.fence && !t.global.json {
			return usagef("--fence needs --json, which shows the fencing token")
		}
		return t.acquire(cmd.Context(), f, file, args)
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.DurationVar(&f.ttl, "ttl", 30*time.Second, "for how long the lock lives, if it is not released before. Nothing extends it")
	fs.StringVar(&file, "token-file", "-", "write the token to `FILE`, which is replaced if it is there, or to standard output")
	fs.StringVar(&f.wait, "wait", "forever", "how long to wait for the lock: `TIME` is a duration, 0 for a single attempt, or forever")
	permitsFlag(cmd, &f.permits, "take one of `K` permits, from 1 to 256, of the semaphore that RESOURCE names, instead of the lock. It must be the same number everywhere, also for redlock release")
	fs.BoolVar(&f.fence, "fence", false, "take a fencing token, which --json shows")
	fs.BoolVar(&f.quiet, "quiet", false, "say nothing if the lock is taken or waited for. The exit code is the same")
	fs.StringVar(&f.owner, "owner", ownerLabel(os.Getppid()), "the `LABEL` that others are shown as the holder; by default this machine and the process that calls redlock")
	fs.Lookup("owner").DefValue = "HOST/PID"
	return cmd
}

func (t *tool) acquire(ctx context.Context, f *runFlags, file string, resources []string) (err error) {
	var to *tokenFile
	if file != "-" { // Before the lock: where it cannot be written, others may have it.
		if to, err = newTokenFile(file); err != nil {
			return err
		}
		defer to.drop()
	}
	r, lock, signals, err := t.takeLock(ctx, f, resources)
	if err != nil {
		return err
	}
	defer t.close(ctx, r)
	defer signal.Stop(signals)
	if err := t.handOver(lock, f.permits, to); err != nil {
		_ = lock.Unlock(ctx)
		return err
	}
	return nil
}

// handOver writes the token, and then says that there is a lock.
func (t *tool) handOver(lock *redlock.Lock, permits int, to *tokenFile) error {
	token := lock.Token()
	var slot *int
	if permits > 0 {
		n := slotNumber(lock)
		slot = &n
	}
	if to != nil {
		if err := to.write(token); err != nil {
			return fmt.Errorf("cannot write the token: %w", err)
		}
		token = ""
	}
	signal.Ignore(syscall.SIGPIPE) // Where nobody reads the token, the lock is to be released.
	switch {
	case t.global.json:
		writeJSON(t.out, struct {
			Acquired []string  `json:"acquired"`
			Slot     *int      `json:"slot,omitempty"`
			Token    string    `json:"token,omitempty"`
			Until    time.Time `json:"until"`
			Fence    int64     `json:"fence,omitempty"`
		}{lock.Resources(), slot, token, lock.Until(), lock.Fence()})
	case to != nil:
		printf(t.out, "acquired %s for %s\n", shown(lock.Resources()), shortly(time.Until(lock.Until())))
	default:
		printf(t.out, "%s\n", token)
	}
	return t.out.err
}

// A tokenFile is a file that is to have a token. Nobody but the user can read it, and whoever reads
// it finds a whole token, or what was there before.
type tokenFile struct {
	path string
	temp *os.File
}

// newTokenFile begins one. drop it in the end.
func newTokenFile(path string) (*tokenFile, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usagef("--token-file: %s is no regular file", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // With mode 0600.
	if err != nil {
		return nil, usagef("--token-file: %w", err)
	}
	return &tokenFile{path, temp}, nil
}

func (f *tokenFile) write(token string) error {
	_, err := f.temp.WriteString(token + "\n")
	if err = errors.Join(err, f.temp.Close()); err != nil {
		return err
	}
	return os.Rename(f.temp.Name(), f.path)
}

// drop removes what is left of it, which is nothing once the token is written.
func (f *tokenFile) drop() {
	_ = f.temp.Close()
	_ = os.Remove(f.temp.Name())
}

func (t *tool) releaseCommand() *cobra.Command {
	var file string
	var permits int
	cmd := manual("release")
	cmd.Args = some("resource")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPermits(cmd, permits, len(args)); err != nil {
			return err
		}
		token, err := t.readToken(file)
		if err != nil {
			return err
		}
		r, _, err := t.global.open()
		if err != nil {
			return err
		}
		defer t.close(cmd.Context(), r)
		if permits > 0 {
			slot, err := slotOf(cmd.Context(), r, args[0], permits, token)
			if err != nil {
				return asUsage(err) // Nothing but a name that no slot can have.
			}
			args = []string{slot}
		}
		if err := r.Release(cmd.Context(), args, token); err != nil {
			if invalid(err) {
				return asUsage(err)
			}
			return err
		}
		t.answer(struct {
			Released []string `json:"released"`
		}{args}, "released %s\n", shown(args))
		return nil
	}
	cmd.Flags().StringVar(&file, "token-file", "", "read the token from `FILE`, - for standard input")
	permitsFlag(cmd, &permits, "RESOURCE is the name of a semaphore of `K` permits, from 1 to 256: release the one of them that has the token")
	return cmd
}

// readToken reads a token from where the flag says.
func (t *tool) readToken(file string) (string, error) {
	from, source := t.in, "--token-file "+file
	switch file {
	case "":
		token := os.Getenv("REDLOCK_TOKEN")
		if token == "" {
			return "", usagef("no token: give --token-file or REDLOCK_TOKEN")
		}
		return token, checkToken("REDLOCK_TOKEN", token)
	case "-":
		source = "--token-file -, standard input"
	default:
		f, err := os.Open(file)
		if err != nil {
			return "", usagef("--token-file: %w", err)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, 4096))
	if err != nil {
		return "", usagef("--token-file: %w", err)
	}
	token := firstLine(text)
	return token, checkToken(source, token)
}

// checkToken says where a token comes from that cannot be one. It does not show it.
func checkToken(source, token string) error {
	if err := stored.CheckToken(token); err != nil {
		return usagef("%s: %s; it is what redlock acquire writes", source, messageOf(err))
	}
	return nil
}
