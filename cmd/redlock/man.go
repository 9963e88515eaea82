package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand is "redlock man", whose output the packages install.
func (t *tool) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man",
		Short: "print the man page",
		Long: `Prints the manual of all commands as a man page, which the packages of redlock install. It says what 'redlock help' says.

It asks no node.`,
		Example: `  redlock man | man -l -

  # If redlock does not come from a package:
  redlock man >/usr/local/share/man/man1/redlock.1`,
		Args: noArguments,
		// Whatever the environment says of nodes.
		PersistentPreRun: func(*cobra.Command, []string) {},
		Run:              func(cmd *cobra.Command, _ []string) { writeMan(t.out, cmd.Root()) },
	}
	describe(cmd, "exit", `0    always`)
	return cmd
}

// writeMan writes the manual of all commands in the language of man pages.
func writeMan(w io.Writer, root *cobra.Command) {
	printf(w, ".TH REDLOCK 1 \"\" \"redlock %s\" \"User Commands\"\n", roff(version()))
	printf(w, ".nh\n.ad l\n") // Names such as REDLOCK_NODES stay whole.
	printf(w, ".SH NAME\nredlock \\- %s\n.SH SYNOPSIS\n.nf\n", roff(root.Short))
	var commands []*cobra.Command
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			commands = append(commands, c)
			printf(w, "\\fBredlock\\fR %s\n", roff(manUse(c)))
		}
	}
	printf(w, ".fi\n.SH DESCRIPTION\n")
	manText(w, root.Long)
	printf(w, ".SH COMMANDS\n")
	for _, c := range commands {
		manOf(w, c)
	}
	printf(w, ".SH GLOBAL OPTIONS\n")
	manFlags(w, root.PersistentFlags())
	printf(w, ".SH ENVIRONMENT\n")
	manText(w, root.Annotations["env"])
	printf(w, ".SH EXIT STATUS\n")
	manTable(w, root.Annotations["exit"])
	printf(w, ".SH EXAMPLES\n")
	manExample(w, root.Example)
}

// manOf writes the part of one command.
func manOf(w io.Writer, cmd *cobra.Command) {
	section := func(title string) { printf(w, ".PP\n.B %s\n", title) }
	printf(w, ".SS redlock %s\n", roff(manUse(cmd)))
	manText(w, cmd.Long)
	if own := ownFlags(cmd); own.HasAvailableFlags() {
		section("Options")
		manFlags(w, own)
	}
	if text := cmd.Annotations["env"]; text != "" {
		section("Environment")
		manText(w, text)
	}
	if text := cmd.Annotations["exit"]; text != "" {
		section("Exit status")
		manTable(w, text)
	}
	if cmd.Example != "" {
		section("Examples")
		manExample(w, cmd.Example)
	}
}

// manUse is how a command is called.
func manUse(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(names) == 0 {
		return cmd.Use
	}
	return cmd.Use + " " + strings.Join(names, "|")
}

func manFlags(w io.Writer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, value, usage := flagHelp(f)
		if value = roff(value); value != "" {
			value = " \\fI" + value + "\\fR"
		}
		printf(w, ".TP\n\\fB%s\\fR%s\n%s\n", roff(name), value, roff(usage))
	})
}

func manText(w io.Writer, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		printf(w, ".PP\n%s\n", roff(strings.Join(strings.Fields(paragraph), " ")))
	}
}

func manTable(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		word, meaning := tableRow(line)
		printf(w, ".TP 10\n%s\n%s\n", roff(word), roff(meaning))
	}
}

func manExample(w io.Writer, text string) {
	printf(w, ".PP\n.RS 2\n.nf\n")
	for line := range strings.Lines(text) {
		printf(w, "%s\n", roff(strings.TrimSpace(line)))
	}
	printf(w, ".fi\n.RE\n")
}

// roff has one line read as text, every character as it is typed in a shell.
func roff(line string) string {
	line = roffCharacters.Replace(line)
	if strings.HasPrefix(line, ".") { // Otherwise it would be a request.
		line = `\&` + line
	}
	return line
}

var roffCharacters = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)
