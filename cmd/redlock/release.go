package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock/stored"
)

const exitRelease = `0    released: a quorum of the nodes has confirmed it
64   usage
69   no quorum: too few nodes have confirmed the release; it may be repeated
79   lost: the lock was not there any more, or not on a quorum of the nodes`

func (t *tool) releaseCommand() *cobra.Command {
	var file string
	var permits int
	cmd := &cobra.Command{
		Use:   "release --token-file FILE RESOURCE…",
		Short: "release a lock by its token",
		Long: `Releases a lock that another process has taken and handed on with its token: redlock acquire, or a program. The resources must be all of the lock's. Whoever waits for them is told. That it says lost means that the lock had ended before: somebody else may have had it while the work went on.

The lock of redlock run is no such lock. redlock run releases it itself, and finds it lost if somebody else has done so.

The token comes from a file, or from standard input with --token-file -, or from REDLOCK_TOKEN without it: never from the command line, which the list of processes shows.`,
		Example: `  redlock acquire --ttl 10m --token-file /run/import.token import/42
  redlock release --token-file /run/import.token import/42
  vault read -field=token secret/lock | redlock release --token-file - import/42`,
		Args: someResources,
		RunE: func(cmd *cobra.Command, args []string) error {
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
		},
	}
	cmd.Flags().StringVar(&file, "token-file", "", "read the token from `FILE`, - for standard input")
	permitsFlag(cmd, &permits, "RESOURCE is the name of a semaphore of `K` permits, from 1 to 256: release the one of them that has the token")
	describe(cmd, "exit", exitRelease)
	describe(cmd, "env", "REDLOCK_TOKEN is the token, if there is no --token-file.")
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
