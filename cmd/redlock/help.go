package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed manual.txt
var manuals string

// manual returns a command with what manual.txt says of it.
func manual(name string) *cobra.Command {
	for _, part := range strings.Split(manuals, "\n# ")[1:] {
		sections := strings.Split(part, "\n## ")
		use, about, _ := strings.Cut(sections[0], "\n")
		if strings.Fields(use)[0] != name {
			continue
		}
		short, long, _ := strings.Cut(about, "\n\n")
		cmd := &cobra.Command{Use: use, Short: short, Long: strings.TrimSpace(long), Annotations: make(map[string]string)}
		for _, section := range sections[1:] {
			title, text, _ := strings.Cut(section, "\n")
			cmd.Annotations[title] = strings.TrimRight(text, "\n")
		}
		cmd.Example = cmd.Annotations["examples"]
		return cmd
	}
	panic("manual.txt has no command " + name)
}

// A form is how a manual is written: as text, or as a man page.
type form interface {
	title(text string)
	text(paragraphs string)
	flag(name, value, usage string)
	row(word, meaning string) // of a table
	example(text string)
}

// writeOptions describes flags, and writeRest what follows them.
func writeOptions(f form, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	f.title(title)
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			f.flag(flagHelp(flag))
		}
	})
}

func writeRest(f form, cmd *cobra.Command) {
	if text := cmd.Annotations["env"]; text != "" {
		f.title("Environment")
		f.text(text)
	}
	if text := cmd.Annotations["exit"]; text != "" {
		f.title("Exit status")
		for line := range strings.Lines(strings.ReplaceAll(text, "\n ", " ")) {
			word, meaning, _ := strings.Cut(line, "  ")
			f.row(word, joined(meaning))
		}
	}
	if cmd.Example != "" {
		f.title("Examples")
		f.example(cmd.Example)
	}
}

// joined is a text in one line.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

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

// help writes the manual of a command as text, in the order of a man page.
func (t *tool) help(cmd *cobra.Command, _ []string) {
	w := t.page(cmd.OutOrStdout())
	printf(w, "%s\n", w.bold("NAME"))
	w.text(cmd.CommandPath() + " - " + cmd.Short)
	w.title("Synopsis")
	use := cmd.Use
	if cmd.HasAvailableSubCommands() {
		use = cmd.Name() + " [FLAGS] COMMAND …"
	}
	printf(w, "    %s%s\n", strings.TrimSuffix(cmd.CommandPath(), cmd.Name()), use)
	if cmd.Long != "" {
		w.title("Description")
		if parent := cmd.Parent(); parent != nil && parent.Name() == "completion" {
			w.lines(cmd.Long, "    ") // Cobra's text is broken into lines already.
		} else {
			w.text(cmd.Long)
		}
	}
	if cmd.HasAvailableSubCommands() {
		w.title("Commands")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				w.paragraph(c.Short, fmt.Sprintf("    %-12s ", c.Name()), strings.Repeat(" ", 17))
			}
		}
	}
	writeOptions(w, "Options", ownFlags(cmd))
	global := cmd.Root().PersistentFlags()
	if !cmd.HasParent() {
		writeOptions(w, "Global options", global)
	} else {
		var names []string
		global.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		w.title("Global options")
		w.text(strings.Join(names, ", ") + ".\n\n'redlock help' describes them, and the variables that stand for them.")
	}
	writeRest(w, cmd)
}

// helpWidth is the width of the help where it goes to no terminal, and widestHelp that on a wide one: longer lines are
// hard to read.
const helpWidth, widestHelp = 80, 100

// A page is the text form.
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

func (w page) title(text string) { printf(w, "\n%s\n", w.bold(strings.ToUpper(text))) }

func (w page) text(paragraphs string) { w.indented(paragraphs, "    ") }

func (w page) flag(name, value, usage string) {
	printf(w, "%s\n", strings.TrimRight("    "+w.bold(name)+" "+value, " "))
	w.indented(usage, "        ")
}

func (w page) row(word, meaning string) {
	w.paragraph(meaning, fmt.Sprintf("    %-8s ", word), strings.Repeat(" ", 13))
}

// example writes commands as they are typed, and breaks only the lines of comments.
func (w page) example(text string) {
	comment := ""
	for line := range strings.Lines(text + "\n") {
		if more, ok := strings.CutPrefix(line, "  # "); ok {
			comment += more
			continue
		}
		if comment != "" {
			w.paragraph(comment, "    # ", "    # ")
			comment = ""
		}
		w.lines(line, "  ")
	}
}

// lines writes lines as they are.
func (w page) lines(text, indent string) {
	for line := range strings.Lines(text) {
		printf(w, "%s\n", strings.TrimRight(indent+line, " \n"))
	}
}

// indented writes paragraphs with their lines broken anew.
func (w page) indented(text, indent string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			printf(w, "\n")
		}
		w.paragraph(paragraph, indent, indent)
	}
}

func (w page) paragraph(text, first, others string) {
	printf(w, "%s\n", fold(strings.TrimRight(first+joined(text), " "), w.width, others))
}
