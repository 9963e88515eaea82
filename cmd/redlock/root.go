package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// globalFlags are the flags of all commands. Each of them, but for json, can be given by the
// environment, too; see envName.
type globalFlags struct {
	nodes          string
	nodesFile      string
	user           string
	passwordFile   string
	tls            bool
	tlsCA          string
	tlsCert        string
	tlsKey         string
	tlsServerName  string
	tlsInsecure    bool
	prefix         string
	setName        string
	quarantine     time.Duration
	nodeTimeout    time.Duration
	connectTimeout time.Duration
	color          string
	json           bool
	verbose        bool

	nodesFromEnv bool // and may have credentials
}

// rootCommand returns the command line of the tool.
func (t *tool) rootCommand() *cobra.Command {
	root := manual("redlock")
	root.Version, root.Args, root.Flags().SortFlags = versionText(), noArguments, false
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return t.readEnvironment(cmd.Root()) }
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.Help(); err != nil {
			return err
		}
		return ended(exitUsage)
	}
	t.addGlobalFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("redlock {{.Version}}\n")
	cobra.EnableCommandSorting = false
	root.AddCommand(t.commands()...)
	root.SetHelpCommand(helpCommand(root))
	return root
}

// commands returns the commands, in the order of the help.
func (t *tool) commands() []*cobra.Command {
	return []*cobra.Command{
		t.runCommand(), t.statusCommand(), t.listCommand(), t.watchCommand(), t.checkCommand(),
		t.admitCommand(), t.acquireCommand(), t.releaseCommand(), t.breakCommand(), t.versionCommand(),
		t.manCommand(),
	}
}

func (t *tool) addGlobalFlags(f *pflag.FlagSet) {
	g := &t.global
	f.SortFlags = false
	f.StringVar(&g.nodes, "nodes", "", "the Redis masters, as `ADDRESSES` separated by commas: host:port, redis://host:port/db, rediss://… with TLS, or unix:///path. Without credentials, which the list of processes would show")
	f.StringVar(&g.nodesFile, "nodes-file", "", "read the nodes from `FILE`, one on a line; # begins a comment. Here, and in REDLOCK_NODES, an address may have credentials: redis://user:password@host:port")
	f.StringVar(&g.user, "user", "", "the `NAME` of the ACL user on the nodes")
	f.StringVar(&g.passwordFile, "password-file", "", "read the password from the first line of `FILE`; or put it into REDLOCK_PASSWORD")
	f.BoolVar(&g.tls, "tls", false, "use TLS with all nodes")
	f.StringVar(&g.tlsCA, "tls-ca", "", "trust the certificates in `FILE` (PEM) instead of the system's; with TLS")
	f.StringVar(&g.tlsCert, "tls-cert", "", "the client's certificate, a `FILE` (PEM); with TLS, and --tls-key")
	f.StringVar(&g.tlsKey, "tls-key", "", "the key of the client's certificate, a `FILE` (PEM)")
	f.StringVar(&g.tlsServerName, "tls-server-name", "", "the `NAME` that the nodes' certificates must have, if it is not the host's")
	f.BoolVar(&g.tlsInsecure, "tls-insecure", false, "do not check the nodes' certificates")
	f.StringVar(&g.prefix, "prefix", "", "the `TEXT` that stands before every key")
	f.StringVar(&g.setName, "set-name", "", "the `NAME` of the set of nodes, if the lock's clients name theirs (WithSetName): they are told of clients with other nodes only of the same name")
	f.DurationVar(&g.quarantine, "quarantine", 0, "the longest `TTL` in use, if the lock's clients have quarantine (WithQuarantine)")
	f.DurationVar(&g.nodeTimeout, "node-timeout", 250*time.Millisecond, "how long to wait for a node's answer")
	f.DurationVar(&g.connectTimeout, "connect-timeout", time.Second, "how long to wait for connections to the nodes")
	f.StringVar(&g.color, "color", "auto", "colour: `WHEN` is auto (on a terminal, unless NO_COLOR is set), always or never")
	f.BoolVar(&g.json, "json", false, "write JSON, one object on a line")
	f.BoolVar(&g.verbose, "verbose", false, "with an error, also say how every node has voted")
}

// envName is the variable that stands for a global flag: REDLOCK_NODE_TIMEOUT for --node-timeout.
func envName(flag string) string {
	return "REDLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readEnvironment gives the global flags that are not on the command line what the environment
// says.
func (t *tool) readEnvironment(root *cobra.Command) error {
	var failed error
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(envName(f.Name))
		if !ok || value == "" || f.Changed || f.Name == "json" || failed != nil {
			return
		}
		instead := map[string]string{"nodes": "nodes-file", "nodes-file": "nodes"}[f.Name]
		if instead != "" && root.PersistentFlags().Changed(instead) {
			return // The command line wins over the environment.
		}
		t.global.nodesFromEnv = t.global.nodesFromEnv || f.Name == "nodes"
		if err := f.Value.Set(value); err != nil {
			// Without the value: it may be a secret under the wrong name.
			failed = usagef("%s: not a valid value for --%s", envName(f.Name), f.Name)
		}
	})
	if failed != nil {
		return failed
	}
	switch t.global.color {
	case "auto", "always", "never":
		return nil
	}
	return usagef("--color %q: want auto, always or never", t.global.color)
}

// flagError makes a usage error of what pflag says of a flag.
func flagError(_ *cobra.Command, err error) error {
	text := err.Error()
	if short, _, ok := strings.Cut(text, " in -"); ok && strings.HasPrefix(short, "unknown shorthand flag") {
		text = short // What stands behind it may be a secret.
	}
	return usagef("%s", text)
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() { // It should have been a command.
		return usagef("unknown command: %q", args[0])
	}
	return usagef("unexpected argument %q", args[0])
}

// some wants at least one of such things to be named.
func some(thing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("no %s is named", thing)
		}
		return nil
	}
}
