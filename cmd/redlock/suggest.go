package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError makes a usage error of what pflag says of a flag. One that is not known is answered
// with the nearest one that is.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) && value.GetFlag().Value.Type() == "duration" {
		example := "50s"
		if _, bad := strconv.ParseUint(value.GetValue(), 10, 32); bad == nil {
			example = value.GetValue() + "s"
		}
		return usagef("--%s %q: want a duration such as %s", value.GetFlag().Name, value.GetValue(), example)
	}
	text := err.Error()
	name, ok := strings.CutPrefix(text, "unknown flag: --")
	if !ok {
		if short, rest, ok := strings.Cut(text, " in -"); ok && strings.HasPrefix(short, "unknown shorthand flag") && rest != "" {
			text = short // What stands behind it may be a secret.
		}
		return usagef("%s", text)
	}
	name, _, _ = strings.Cut(name, "=") // The value may be a secret.
	return unknown("unknown flag: --"+name, "--", name, flagNames(cmd))
}

// unknown is the error about a word, with the nearest one that is known.
func unknown(text, dashes, word string, known []string) error {
	if near := nearest(word, known); near != "" {
		text += fmt.Sprintf("; did you mean %s%s?", dashes, near)
	}
	return usagef("%s", text)
}

// flagNames are the flags that a command takes.
func flagNames(cmd *cobra.Command) []string {
	names := []string{"help"}
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// unknownCommand is the error about a command that there is not.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return unknown(fmt.Sprintf("unknown command: %q", name), "", name, names)
}

// nearest returns the known word that is nearest to a word: the shortest that begins with it, or the one with the
// fewest edits, if these are few against its length. "" if there is none.
func nearest(word string, known []string) string {
	words := &cobra.Command{} // Cobra has the distance, and keeps it for the names of commands.
	for _, k := range known {
		words.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	for edits := 0; len(word) > 1 && edits <= (len(word)+1)/2; edits++ {
		words.SuggestionsMinimumDistance = edits
		if near := words.SuggestionsFor(word); len(near) > 0 {
			return slices.MinFunc(near, func(a, b string) int { return len(a) - len(b) })
		}
	}
	return ""
}

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
