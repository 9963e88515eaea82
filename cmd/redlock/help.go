package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed manual.txt
var manuals string

// manual returns a command with what manual.txt says of it.
func manual(name string) *cobra.Command {
	for _, part := range strings.Split(manuals, "\n# ")[1:] {
		use, about, _ := strings.Cut(part, "\n")
		if strings.Fields(use)[0] == name {
			short, long, _ := strings.Cut(about, "\n\n")
			return &cobra.Command{
				Use: use, DisableFlagsInUseLine: true, Short: short, Long: strings.TrimSpace(long),
				ValidArgsFunction: cobra.NoFileCompletions,
			}
		}
	}
	panic("manual.txt has no command " + name)
}

// usageTemplate is what the manual of a command ends with. Only that of redlock has the global options.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

Options:
{{.LocalFlags.FlagUsagesWrapped 72 | trimTrailingWhitespaces}}{{if .HasParent}}

'redlock help' describes the global options, and the variables that
stand for them.{{end}}
`

// helpCommand is "redlock help COMMAND".
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "show the manual of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command: %q", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	}
}

// manCommand is "redlock man", whose output the packages install: the manuals of all commands as a man page.
func (t *tool) manCommand() *cobra.Command {
	cmd := manual("man")
	cmd.Args = noArguments
	cmd.PersistentPreRun = func(*cobra.Command, []string) {} // Whatever the environment says of nodes.
	cmd.Run = func(cmd *cobra.Command, _ []string) {
		root := cmd.Root()
		printf(t.out, ".TH REDLOCK 1 \"\" \"redlock %s\" \"User Commands\"\n", roff.Replace(version()))
		printf(t.out, ".SH NAME\nredlock \\- %s\n", root.Short)
		for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
			if c == root || c.IsAvailableCommand() {
				text := roff.Replace(c.Long + "\n\n" + c.UsageString())
				printf(t.out, ".SH %s\n.nf\n%s\n.fi\n", strings.ToUpper(c.CommandPath()), text)
			}
		}
	}
	return cmd
}

// roff has a text read as it is typed in a shell. A line that begins with a point would be a request.
var roff = strings.NewReplacer("\n.", "\n\\&.",
	`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

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

// finish adds what Cobra would add later, as the man page has it, and has a shell offer values of options. Cobra writes
// help where no shell is named that it knows, and whoever loads that as a script does not find out: so that is a usage
// error.
func finish(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range append(root.Commands(), root) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = noArguments, root.RunE
		}
		for name, values := range suggested { // What is no option of the command is refused.
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}
