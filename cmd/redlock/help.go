package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of the help where it goes to no terminal, and widestHelp that on a wide one: longer lines are
// hard to read.
const helpWidth, widestHelp = 80, 100

// A page is where a manual is written.
type page struct {
	io.Writer
	style

	width int
}

func (t *tool) page(w io.Writer) page {
	p := page{w, t.styleFor(w), helpWidth}
	if n := columns(w); n > 0 {
		p.width = min(n, widestHelp)
	}
	return p
}

// exitGeneral are the exit codes that mean the same with every command.
const exitGeneral = `0    success
64   usage: the command line or the environment is wrong; nothing was done
69   no quorum: too many nodes did not answer
70   something else failed`

// describe gives a command a section of its help: "exit" for the exit codes, "env" for what it
// reads from the environment or sets there.
func describe(cmd *cobra.Command, section, text string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[section] = text
}

// helpCommand is "redlock help COMMAND".
func (t *tool) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "show the manual of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(root, strings.Join(args, " "))
			}
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// help writes the manual of a command, in the order of a man page.
func (t *tool) help(cmd *cobra.Command, _ []string) {
	w := t.page(cmd.OutOrStdout())
	section := func(title string) { printf(w, "\n%s\n", w.bold(title)) }
	printf(w, "%s\n", w.bold("NAME"))
	writeText(w, cmd.CommandPath()+" - "+cmd.Short, "    ")
	section("SYNOPSIS")
	if cmd.HasAvailableSubCommands() {
		printf(w, "    %s [FLAGS] COMMAND …\n", cmd.CommandPath())
	} else {
		path := strings.TrimSuffix(cmd.CommandPath(), cmd.Name())
		printf(w, "    %s%s\n", path, cmd.Use)
	}
	writeDescription(w, section, cmd)
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				writeParagraph(w, c.Short, fmt.Sprintf("    %-12s ", c.Name()), strings.Repeat(" ", 17))
			}
		}
	}
	if own := ownFlags(cmd); own.HasAvailableFlags() {
		section("OPTIONS")
		writeFlags(w, own)
	}
	section("GLOBAL OPTIONS")
	writeGlobalFlags(w, cmd)
	if text := cmd.Annotations["env"]; text != "" {
		section("ENVIRONMENT")
		writeText(w, text, "    ")
	}
	if text := cmd.Annotations["exit"]; text != "" {
		section("EXIT STATUS")
		writeTable(w, text)
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		writeExample(w, cmd.Example)
	}
}

// writeExample writes commands as they are typed, and breaks only the lines of comments.
func writeExample(w page, text string) {
	comment := ""
	for line := range strings.Lines(text + "\n") {
		if more, ok := strings.CutPrefix(line, "  # "); ok {
			comment += more
			continue
		}
		if comment != "" {
			writeParagraph(w, comment, "    # ", "    # ")
			comment = ""
		}
		printf(w, "%s\n", strings.TrimRight("  "+line, " \n"))
	}
}

// writeDescription writes what a command does. What cobra says of its completions is broken into
// lines already.
func writeDescription(w page, section func(title string), cmd *cobra.Command) {
	if cmd.Long == "" {
		return
	}
	section("DESCRIPTION")
	if parent := cmd.Parent(); parent != nil && parent.Name() == "completion" {
		for line := range strings.Lines(cmd.Long) {
			printf(w, "%s\n", strings.TrimRight("    "+line, " \n"))
		}
		return
	}
	writeText(w, cmd.Long, "    ")
}

const environmentHelp = `Every global option but --json has a variable: REDLOCK_NODES for --nodes, REDLOCK_NODE_TIMEOUT for --node-timeout. What is on the command line wins.

REDLOCK_PASSWORD is the password on the nodes. It has no option, as the list of processes shows the command line. No output shows it.

NO_COLOR, if it is not empty, turns off colour.`

// writeGlobalFlags describes the flags of all commands in the manual of redlock itself, and only names
// them in those of the commands.
func writeGlobalFlags(w page, cmd *cobra.Command) {
	flags := cmd.Root().PersistentFlags()
	if !cmd.HasParent() {
		writeFlags(w, flags)
		return
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	writeText(w, strings.Join(names, ", ")+".\n\n'redlock help' describes them, and the variables that stand for them.", "    ")
}

// ownFlags are those of the command itself.
func ownFlags(cmd *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			own.AddFlag(f)
		}
	})
	return own
}

// writeFlags lists flags with what they are for, each on lines of its own.
func writeFlags(w page, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, value, usage := flagHelp(f)
		if value != "" {
			value = " " + value
		}
		printf(w, "    %s%s\n", w.bold(name), value)
		writeText(w, usage, "        ")
	})
}

// flagHelp is what the help and the man page say of a flag.
func flagHelp(f *pflag.Flag) (name, value, usage string) {
	value, usage = pflag.UnquoteUsage(f)
	name = "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if d := f.DefValue; d != "" && d != "false" && d != "0s" {
		usage += " (default " + d + ")"
	}
	return name, value, usage + "."
}

// writeText writes paragraphs with their lines broken anew.
func writeText(w page, text, indent string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			printf(w, "\n")
		}
		writeParagraph(w, paragraph, indent, indent)
	}
}

func writeTable(w page, text string) {
	for line := range strings.Lines(text) {
		word, meaning := tableRow(line)
		writeParagraph(w, meaning, fmt.Sprintf("    %-8s ", word), strings.Repeat(" ", 13))
	}
}

// tableRow is the word of a line of a table, or the words, and behind two spaces what they mean.
func tableRow(line string) (word, meaning string) {
	word, meaning, _ = strings.Cut(strings.TrimSpace(line), "  ")
	return word, strings.TrimSpace(meaning)
}

func writeParagraph(w page, text, first, others string) {
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > w.width {
			printf(w, "%s\n", line)
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	printf(w, "%s\n", strings.TrimRight(line, " "))
}
