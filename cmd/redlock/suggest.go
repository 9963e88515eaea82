package main

import (
	"errors"
	"fmt"
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

// nearest returns the known word that is nearest to a word: the shortest that begins with it, or
// the one with the fewest edits, if these are few against its length. "" if there is none.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, fewest := "", len(word)/2+1
	for _, k := range known {
		d := distance(word, k)
		if len(word) > 1 && strings.HasPrefix(k, word) {
			d = 0
		}
		if d < fewest || d == fewest && best != "" && len(k) < len(best) {
			best, fewest = k, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to
// get from a to b.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
