package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// manCommand is "redlock man", whose output the packages install.
func (t *tool) manCommand() *cobra.Command {
	cmd := manual("man")
	cmd.Args = noArguments
	cmd.PersistentPreRun = func(*cobra.Command, []string) {} // Whatever the environment says of nodes.
	cmd.Run = func(cmd *cobra.Command, _ []string) { writeMan(t.out, cmd.Root()) }
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
	printf(w, ".fi\n")
	page := manPage{Writer: w}
	page.title("Description")
	page.text(root.Long)
	page.title("Commands")
	for _, c := range commands {
		printf(w, ".SS redlock %s\n", roff(manUse(c)))
		part := manPage{w, true}
		part.text(c.Long)
		writeOptions(part, "Options", ownFlags(c))
		writeRest(part, c)
	}
	writeOptions(page, "Global options", root.PersistentFlags())
	writeRest(page, root)
}

// manUse is how a command is called.
func manUse(cmd *cobra.Command) string {
	use, between := cmd.Use, " "
	for _, c := range cmd.Commands() {
		use, between = use+between+c.Name(), "|"
	}
	return use
}

// A manPage is the form of a man page, or of the part of it that is about one command.
type manPage struct {
	io.Writer

	part bool
}

func (w manPage) title(text string) {
	if w.part {
		printf(w, ".PP\n.B %s\n", text)
		return
	}
	printf(w, ".SH %s\n", strings.ToUpper(text))
}

func (w manPage) text(paragraphs string) {
	for paragraph := range strings.SplitSeq(paragraphs, "\n\n") {
		printf(w, ".PP\n%s\n", roff(joined(paragraph)))
	}
}

func (w manPage) flag(name, value, usage string) {
	if value != "" {
		value = " \\fI" + roff(value) + "\\fR"
	}
	printf(w, ".TP\n\\fB%s\\fR%s\n%s\n", roff(name), value, roff(usage))
}

func (w manPage) row(word, meaning string) { printf(w, ".TP 10\n%s\n%s\n", roff(word), roff(meaning)) }

func (w manPage) example(text string) {
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

var roffCharacters = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)
