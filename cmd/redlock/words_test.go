package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestCredentials(t *testing.T) {
	const secret = "S3cret-word"
	c := testcluster.RunServers(t, 1, testcluster.WithArgs("--user", "app", "on", ">"+secret, "~*", "&*", "+@all"))
	addr := c.Nodes[0].Addr()
	dir := t.TempDir()
	password, nodes := filepath.Join(dir, "password"), filepath.Join(dir, "nodes")
	require.NoError(t, os.WriteFile(password, []byte(secret+"\n"), 0o600))
	require.NoError(t, os.WriteFile(nodes, []byte("# ours\nredis://app:"+secret+"@"+addr+" # first\n"), 0o600))
	status := func(env map[string]string, args ...string) (int, string) {
		t.Setenv("REDLOCK_NODES", "")
		for _, name := range []string{"NODES", "PASSWORD", "USER", "PASSWORD_FILE", "NODES_FILE"} {
			t.Setenv("REDLOCK_"+name, env["REDLOCK_"+name])
		}
		code, out, errOut := execTool(t, nil, append([]string{"status", "x"}, append(slow, args...)...)...)
		assert.NotContains(t, out+errOut, secret)
		return code, out + errOut
	}
	code, out := status(nil, "--nodes", "redis://app:"+secret+"@"+addr)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "has credentials")
	code, _ = status(nil, "--nodes", "app:"+secret+"@"+addr)
	assert.Equal(t, exitUsage, code)
	for name, ok := range map[string]func() (int, string){
		"environment": func() (int, string) {
			return status(map[string]string{"REDLOCK_NODES": "redis://app:" + secret + "@" + addr})
		},
		"nodes file": func() (int, string) { return status(nil, "--nodes-file", nodes) },
		"password file": func() (int, string) {
			return status(nil, "--nodes", addr, "--user", "app", "--password-file", password)
		},
		"password": func() (int, string) {
			return status(map[string]string{"REDLOCK_NODES": addr, "REDLOCK_USER": "app", "REDLOCK_PASSWORD": secret})
		},
	} {
		code, out = ok()
		assert.Equal(t, exitNo, code, "%s: %s", name, out)
		assert.Contains(t, out, "x  free", name)
	}
	code, out = status(map[string]string{"REDLOCK_PASSWORD": "wrong-" + secret}, "--nodes", addr, "--user", "app")
	assert.Equal(t, exitNoQuorum, code, out)
	code, out = status(map[string]string{"REDLOCK_NODES": "redis://app:" + secret + addr}) // Without its @.
	assert.Equal(t, exitUsage, code, out)
	code, out = status(nil, "--pasword-file="+secret, "--nodes", addr)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "did you mean --password-file?")
}

// Half an answer must not look like all of it.
func TestAnswerCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"status", "--nodes", "127.0.0.1:1", "x"}, {"list", "--json", "--nodes", "127.0.0.1:1"}} {
		var errOut bytes.Buffer
		s := execute(t.Context(), args, strings.NewReader(""), full{}, &errOut)
		if args[0] == "list" { // It has nothing to say.
			assert.Equal(t, exitNoQuorum, s.code)
			continue
		}
		assert.Equal(t, exitInternal, s.code, "%q", args)
		assert.Contains(t, errOut.String(), "cannot write the answer: no space")
	}
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestHelp(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "")
	for _, name := range []string{"", "run", "status", "list", "watch", "check", "admit", "acquire", "release", "break", "version", "man"} {
		args := append(strings.Fields(name), "--help")
		code, out, _ := execTool(t, nil, args...)
		assert.Equal(t, exitOK, code)
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "GLOBAL OPTIONS", "EXIT STATUS"} {
			assert.Contains(t, out, section+"\n", name)
		}
		assert.Contains(t, out, "--tls-server-name")
		for _, once := range []string{"that the nodes' certificates must have", "NO_COLOR, if it"} {
			assert.Equal(t, name == "", strings.Contains(out, once), "%s: %s", name, once)
		}
		if name != "" {
			_, same, _ := execTool(t, nil, "help", name)
			assert.Equal(t, out, same)
		}
		assert.NotContains(t, out, "\x1b")
		assert.NotContains(t, out, "``")
	}
	code, out, _ := execTool(t, nil, "--help", "--color", "always")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "\x1b[1mNAME")
	code, out, _ = execTool(t, nil)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, out, "SYNOPSIS")
}

// Whatever is wrong with a command line is told before any node is asked.
func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"stauts", "x"}, `unknown command: "stauts"; did you mean status?`},
		{[]string{"help", "rn"}, `unknown command: "rn"; did you mean run?`},
		{[]string{"status", "--node", "x"}, "unknown flag: --node; did you mean --nodes?"},
		{[]string{"list", "--prefxi=a"}, "unknown flag: --prefxi; did you mean --prefix?"},
		{[]string{"list", "--qqqqqqqqq"}, "unknown flag: --qqqqqqqqq\n"},
		{[]string{"list", "-pS3cret"}, "unknown shorthand flag: 'p'\n"},
		{[]string{"list", "x", "y"}, `unexpected argument "y"`},
		{[]string{"version", "x"}, `unexpected argument "x"`},
		{[]string{"status"}, "no resource is named"},
		{[]string{"status", "--nodes", "a:1,a:1", "x"}, `nodes 1 and 2 of 2 are both named "a:1"`},
		{[]string{"run", "--nodes", "a:1,a:1", "x", "--", "true"}, `nodes 1 and 2 of 2 are both named "a:1"`},
		{[]string{"run", "--nodes", "a:1", "--node-timeout", "0", "x", "--", "true"}, "--node-timeout 0s: must be positive"},
		{[]string{"check", "--nodes", "a:1", "--connect-timeout", "-1s"}, "--connect-timeout -1s: must be positive"},
		{[]string{"run", "--nodes", "a:1", "--quarantine", "5s", "x", "--", "true"}, "--ttl 30s: must not exceed --quarantine 5s, the longest"},
		{[]string{"run", "--nodes", "a:1", "--quarantine", "5s", "--at-least", "1m", "x", "--", "true"}, "--at-least 1m0s: must not exceed"},
		{[]string{"acquire", "--nodes", "a:1", "--quarantine", "5s", "x"}, "--ttl 30s: must not exceed --quarantine 5s"},
		{[]string{"watch", "--interval", "10", "x"}, `--interval "10": want a duration such as 10s`},
		{[]string{"watch", "--interval", "x", "x"}, `--interval "x": want a duration such as 50s`},
		{[]string{"admit", "--nodes", "a:1", "--quarantine", "5s", "b:1"}, `none of the nodes is named "b:1"`},
		{[]string{"check", "--nodes", "a:1,b"}, `node 2 of 2: malformed address "b"`},
		{[]string{"list", "--nodes", "a:1,redis://u:p@b:1"}, "--nodes: node 2 of 2 has credentials in its address"},
		{[]string{"list", "--nodes", "rediss://a:1,b:1", "--tls-insecure"}, "the node b:1 is without TLS"},
		{[]string{"list", "--nodes", "valkeys://a:1,valkey://b:1", "--tls-insecure"}, "the node b:1 is without TLS"},
		{[]string{"status", "--nodes", "a:port", "x"}, `malformed address "a:…": port: want 1 to 65535`},
		{[]string{"status", "--nodes", "a:1,,b:1", "x"}, "--nodes: entry 2 of 3 is empty: is a variable unset?"},
		{[]string{"run", "--nodes", "a:1, ,", "x", "--", "true"}, "--nodes: entry 2 of 3 is empty"},
		{[]string{"check", "--nodes", "a:1,b:1,"}, "--nodes: entry 3 of 3 is empty"},
		{[]string{"list", "--nodes", ","}, "--nodes: entry 1 of 2 is empty"},
		{[]string{"list", "--nodes", "a:6380,password=hidden=,ssl=True"}, `node 2 of 3: malformed address "password=…": key=value means`},
		{[]string{"status", "--nodes", "localhost", "x"}, `malformed address "localhost": want host:port, such as localhost:6379`},
		{[]string{"status", "--nodes", "a:1", "__redlock__:x"}, "reserved"},
		{[]string{"status", "--color", "red", "x"}, `--color "red"`},
		{[]string{"break", "--json", "x"}, "--json needs --yes"},
		{[]string{"break", "x", "y"}, "exactly one"},
		{[]string{"watch", "--interval", "1ms", "x"}, "--interval 1ms"},
		{[]string{"completion", "zhs"}, `unknown command: "zhs"; did you mean zsh?`},
		{[]string{"acquire", "--nodes", "a:1", "--wait", "0", "--token-file", "", "x"}, "--token-file: no name"},
		{[]string{"release", "--nodes", "a:1", "--token-file", "", "x"}, "--token-file: no name"},
		{[]string{"list", "--node-timeout=-1s"}, "must be positive"},
		{[]string{"watch", "x", "--connect-timeout=0"}, "must be positive"},
		{[]string{"break", "--yes", "x", "--node-timeout=0"}, "must be positive"},

		{[]string{"run", "x", "true"}, "no -- between"},
		{[]string{"run", "--", "true"}, "no resource"},
		{[]string{"run", "x", "--"}, "no command"},
		{[]string{"run", "--ttl", "10ms", "x", "--", "true"}, "--ttl 10ms: must be at least 1s"},
		{[]string{"run", "--wait", "never", "x", "--", "true"}, `--wait "never"`},
		{[]string{"run", "--kill-after", "20s", "x", "--", "true"}, "--kill-after 20s"},
		{[]string{"run", "--at-least", "50", "x", "--", "true"}, `--at-least "50": want a duration such as 50s`},
		{[]string{"run", "--at-least", "-1s", "x", "--", "true"}, "--at-least -1s"},
		{[]string{"run", "--owner", "a\nb", "x", "--", "true"}, "owner label"},
		{[]string{"run", "", "--", "true"}, "empty resource"},
		{[]string{"run", "--at-lest", "1s", "x", "--", "true"}, "did you mean --at-least?"},

		{[]string{"acquire"}, "no resource is named"},
		{[]string{"release", "x"}, "no token"},
		{[]string{"acquire", "--fence", "x"}, "--fence needs --json"},
		{[]string{"acquire", "--ttl", "100ms", "x"}, "--ttl 100ms"},
		{[]string{"acquire", "--wait", "soon", "x"}, `--wait "soon"`},

		{[]string{"run", "--permits", "0", "x", "--", "true"}, "--permits 0: must be from 1 to 256"},
		{[]string{"run", "--permits", "-3", "x", "--", "true"}, "--permits -3: must be from 1 to 256"},
		{[]string{"run", "--permits", "257", "x", "--", "true"}, "--permits 257: must be from 1 to 256"},
		{[]string{"run", "--permits", "many", "x", "--", "true"}, "--permits"},
		{[]string{"run", "--permits", "2", "x", "y", "--", "true"}, "--permits with 2 resources: want one"},
		{[]string{"run", "--permits", "2", "", "--", "true"}, "empty name"},
		{[]string{"run", "--permits", "2", "--owner", "a\nb", "x", "--", "true"}, "owner label"},
		{[]string{"acquire", "--permits", "0", "x"}, "--permits 0: must be from 1 to 256"},
		{[]string{"acquire", "--permits", "2", "x", "y"}, "--permits with 2 resources: want one"},
		{[]string{"release", "--permits", "257", "x"}, "--permits 257: must be from 1 to 256"},
		{[]string{"release", "--permits", "2", "x", "y"}, "--permits with 2 resources: want one"},
		{[]string{"watch", "--permits", "0", "x"}, "--permits 0: must be from 1 to 256"},
		{[]string{"status", "--permits", "0", "x"}, "--permits 0: must be from 1 to 256"},
		{[]string{"status", "--permits", "257", "x"}, "--permits 257: must be from 1 to 256"},
	}
	refuses := func(want string, args ...string) {
		code, _, errOut := execTool(t, nil, args...)
		assert.Equal(t, exitUsage, code, "%q", args)
		assert.Contains(t, errOut, want, "%q", args)
	}
	t.Setenv("REDLOCK_NODES", "127.0.0.1:1")
	for _, tt := range tests {
		refuses(tt.want, tt.args...)
	}
	t.Setenv("REDLOCK_NODES", "127.0.0.1:1,,")
	refuses("REDLOCK_NODES: entry 2 of 3 is empty: is a variable unset?", "run", "x", "--", "true")
	t.Setenv("REDLOCK_NODES", "")
	refuses("no nodes", "status", "x")
	t.Setenv("REDLOCK_NODE_TIMEOUT", "soon")
	refuses("REDLOCK_NODE_TIMEOUT", "status", "x")
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errOut := execTool(t, nil, "completion", shell)
		assert.Equal(t, exitOK, code, errOut)
		assert.Contains(t, out, "redlock", shell)
		if path, err := exec.LookPath(shell); err == nil {
			file := filepath.Join(t.TempDir(), shell)
			require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
			text, err := exec.Command(path, "-n", file).CombinedOutput()
			assert.NoError(t, err, "%s: %s", shell, text)
		}
	}
	code, _, _ := execTool(t, nil, "completion")
	assert.Equal(t, exitUsage, code, "its help is no script")
	_, out, _ := execTool(t, nil, "__complete", "st")
	assert.Regexp(t, `(?m)^status\t`, out)
	_, out, _ = execTool(t, nil, "__complete", "run", "--wa")
	assert.Contains(t, out, "--wait")
	_, out, _ = execTool(t, nil, "__complete", "run", "--wait", "")
	assert.Contains(t, out, "forever")
	_, out, _ = execTool(t, nil, "__complete", "admit", "--nodes", "a:1,b:2", "")
	assert.Contains(t, out, "a:1\nb:2\n")
	_, out, _ = execTool(t, nil, "__complete", "admit", "--nodes", "a:1,b:2", "a:1", "")
	assert.Equal(t, "b:2\n:4\n", out, "not the one that is there")
}

// A shell offers the names of files where it is told nothing else. For most options that is nonsense.
func TestCompletionOfValues(t *testing.T) {
	complete := func(words ...string) string {
		_, out, _ := execTool(t, nil, append([]string{"__complete"}, words...)...)
		return out
	}
	const nothing, files = ":4\n", ":0\n"
	root := (&tool{}).rootCommand()
	for _, cmd := range root.Commands() {
		check := func(f *pflag.Flag) {
			out := complete(cmd.Name(), "--"+f.Name, "")
			switch _, offered := suggested[f.Name]; {
			case f.NoOptDefVal != "": // It takes no value.
			case slices.Contains(takesFile, f.Name):
				assert.Equal(t, files, out, "%s --%s", cmd.Name(), f.Name)
			case f.Value.Type() == "duration" || offered:
				assert.Regexp(t, `(?s)^.+\n:4\n$`, out, "%s --%s", cmd.Name(), f.Name)
			default:
				assert.Equal(t, nothing, out, "%s --%s", cmd.Name(), f.Name)
			}
		}
		if cmd.Name() != "completion" {
			cmd.LocalFlags().VisitAll(check)
			root.PersistentFlags().VisitAll(check)
		}
	}
	assert.Equal(t, "auto\nalways\nnever\n:4\n", complete("list", "--color", ""))
	assert.Equal(t, nothing, complete("status", ""))
	assert.Equal(t, nothing, complete("run", "x", ""))
	assert.Equal(t, files, complete("run", "x", "--", ""))
	assert.Equal(t, files, complete("run", "x", "--", "tar", ""))
}

func TestVersion(t *testing.T) {
	t.Setenv("REDLOCK_NODE_TIMEOUT", "whatever")
	code, out, _ := execTool(t, nil, "version")
	assert.Equal(t, exitOK, code)
	assert.Regexp(t, `^redlock \S+ \(go\S+, \w+/\w+\)\n$`, out)
	_, same, _ := execTool(t, nil, "--version")
	assert.Equal(t, out, same)
	_, out, _ = execTool(t, nil, "version", "--json")
	assert.NotEmpty(t, decode[struct{ Version string }](t, out).Version)
}
