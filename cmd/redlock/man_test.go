package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page has every command and every option, in the words of the help.
func TestManPage(t *testing.T) {
	t.Setenv("REDLOCK_NODE_TIMEOUT", "whatever")
	code, page, errOut := execTool(t, nil, "man")
	require.Equal(t, exitOK, code, errOut)
	assert.True(t, strings.HasPrefix(page, ".TH REDLOCK 1 "))

	root := (&tool{}).rootCommand()
	completionNeedsShell(root)
	commands := strings.Split(page, "\n.SS ")
	byName := map[string]string{}
	for _, text := range commands[1:] {
		text, _, _ = strings.Cut(text, "\n.SH ")
		byName[strings.Fields(text)[1]] = text
	}
	has := func(text string) func(f *pflag.Flag) {
		return func(f *pflag.Flag) {
			name, _, usage := flagHelp(f)
			assert.Contains(t, text, `\fB`+roff(name)+`\fR`)
			assert.Contains(t, text, "\n"+roff(usage)+"\n", name)
		}
	}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		text := byName[cmd.Name()]
		require.NotEmpty(t, text, cmd.Name())
		ownFlags(cmd).VisitAll(has(text))
		assert.Equal(t, cmd.Annotations["exit"] != "", strings.Contains(text, "\n.B Exit status\n"), cmd.Name())
		assert.Contains(t, text, strings.Fields(roff(cmd.Long))[0], cmd.Name())
	}
	assert.Contains(t, byName["watch"], "\n129, 130, 143\nit was ended")
	assert.Contains(t, byName["completion"], "redlock completion bash|zsh|fish|")
	_, global, _ := strings.Cut(page, "\n.SH GLOBAL OPTIONS\n")
	root.PersistentFlags().VisitAll(has(global))
	for _, section := range []string{"SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"} {
		assert.Contains(t, page, "\n.SH "+section+"\n")
	}
	for line := range strings.Lines(page) {
		assert.NotContains(t, line, "'", "it would be set as a closing quote, or begin a request")
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		file := filepath.Join(t.TempDir(), "redlock.1")
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
		out, err := exec.Command(groff, "-man", "-ww", "-z", "-Kutf8", "-Tutf8", file).CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out), "warnings")
	}
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		`--wait 0`:      `\-\-wait 0`,
		`a\b`:           `a\eb`,
		`.TH`:           `\&.TH`,
		`'x' "y"`:       `\(aqx\(aq \(dqy\(dq`,
		"`date` ~ ^ 5…": `\(gadate\(ga \(ti \(ha 5…`,
	} {
		assert.Equal(t, want, roff(text))
	}
}
