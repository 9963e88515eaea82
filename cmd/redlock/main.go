// Command redlock locks resources over N independent Redis masters from a shell: it runs
// commands under a lock, and shows, checks and repairs what is on the nodes. "redlock help" says
// how; the lock is that of package redlock.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guardArg:
			os.Exit(guardMain(os.Args[2:]))
		case gateArg:
			os.Exit(gateMain(os.Args[2:]))
		}
	}
	endBySignals()
	execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr).exit()
}

// execute carries out one command line and returns how it ended. An error is on stderr already.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) status {
	t := &tool{in: in, out: &output{w: out}, errOut: errOut}
	root := t.rootCommand() //nolint:contextcheck // Commands have the context of ExecuteContextC.
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(t.out)
	root.SetErr(errOut)
	finish(root) // Completion notes where to write.
	cmd, err := root.ExecuteContextC(ctx)
	if t.out.err != nil {
		err = t.out.err
	}
	if err == nil {
		return t.status
	}
	var ended *endedError
	if errors.As(err, &ended) { // What there is to say was said.
		return ended.status
	}
	t.global.json = t.global.json || asksForJSON(args)
	return status{code: t.report(cmd, err)}
}

// asksForJSON reports whether a command line has --json, also behind a flag at which its parsing has
// ended.
func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// tool is one invocation: where it reads and writes, and its global flags.
type tool struct {
	in     io.Reader
	out    *output
	errOut io.Writer
	global globalFlags
	status status
}

// report writes an error, and returns the exit code for it.
func (t *tool) report(cmd *cobra.Command, err error) int {
	code, reason := classify(err)
	if t.global.json {
		writeErrorJSON(t.errOut, err, code, reason)
		return code
	}
	s := t.styleFor(t.errOut)
	printf(t.errOut, "%s %s\n", s.red("redlock:"), sentence(err))
	if votes := (*redlock.QuorumError)(nil); t.global.verbose && errors.As(err, &votes) {
		for _, v := range votes.Votes {
			printf(t.errOut, "  %s\n", harmless(v.String()))
		}
	}
	if code == exitUsage && cmd != nil {
		printf(t.errOut, "Try '%s --help'.\n", cmd.CommandPath())
	}
	return code
}
