package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggested are values of options that a shell offers.
var suggested = map[string][]string{
	"color":           {"auto", "always", "never"},
	"ttl":             {"10s", "30s", "1m", "10m"},
	"wait":            {"0", "1m", "5m", "forever"},
	"permits":         {"2", "5", "10"},
	"at-least":        {"50s", "5m", "55m"},
	"kill-after":      {"0", "5s", "30s"},
	"interval":        {"200ms", "1s", "5s"},
	"quarantine":      {"30s", "1m", "10m"},
	"node-timeout":    {"250ms", "1s"},
	"connect-timeout": {"1s", "5s"},
}

// takesFile are the options whose value is a file: a shell offers those by itself.
var takesFile = []string{"nodes-file", "password-file", "token-file", "tls-ca", "tls-cert", "tls-key"}

// completionNeedsShell has completion without a shell, or with one that is not known, be a usage error.
// Cobra writes help then, and whoever loads that as a script does not find out.
func completionNeedsShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = noArguments, root.RunE
		}
	}
}

// completeValues says for all commands what a shell offers as values of options and as arguments. It
// must not offer the names of files where there can be none: behind -- there can, as that is a
// command's.
func completeValues(root *cobra.Command, behindDashes bool) {
	arguments := cobra.NoFileCompletions
	if behindDashes {
		arguments = nil
	}
	for _, cmd := range append(root.Commands(), root) {
		flags := cmd.LocalFlags()
		flags.VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" && !slices.Contains(takesFile, f.Name) {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(suggested[f.Name], cobra.ShellCompDirectiveNoFileComp))
			}
		})
		if cmd.ValidArgsFunction == nil && cmd.HasParent() {
			cmd.ValidArgsFunction = arguments
		}
	}
}
