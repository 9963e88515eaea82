package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) releaseCommand() *cobra.Command {
	var file string
	var permits int
	cmd := manual("release")
	cmd.Args = someResources
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := namedTokenFile(cmd, file); err != nil {
			return err
		}
		if err := checkOnePermit(cmd, permits, len(args)); err != nil {
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
	line, _, _ := strings.Cut(string(text), "\n")
	token := strings.TrimSuffix(line, "\r")
	return token, checkToken(source, token)
}

// checkToken says where a token comes from that cannot be one. It does not show it.
func checkToken(source, token string) error {
	if err := stored.CheckToken(token); err != nil {
		return usagef("%s: %s; it is what redlock acquire writes", source, messageOf(err))
	}
	return nil
}
