package redlock

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updateScripts = flag.Bool("update-scripts", false, "write docs/scripts")

// composedFolder has the texts of the scripts that are composed in Go, so that a change of what is on
// the wire is seen in review.
const composedFolder = "../docs/scripts"

func TestScriptsThatAreComposedAreWrittenDown(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef01234567"
	texts := map[string]string{}
	add := func(name, comment string, source any) {
		texts[name+".lua"] = "-- " + comment + "\n\n" + strings.TrimSpace(source.(string)) + "\n"
	}
	for _, s := range handshakeScripts {
		if s.Grants {
			add("quarantine-"+s.Name, s.Name+" with quarantine: KEYS end with the marker, and ARGV with 0, the number of nodes and maxTTL in ms.",
				grantingScripts.Slow(s).Source)
		}
	}
	add("quarantine-lock-fast", "quarantine-lock for a server in a run, here "+run+", and clients with 3 nodes.",
		grantingScripts.Fast(run, "the marker", "3")[lockScript].Source)

	if *updateScripts {
		require.NoError(t, os.RemoveAll(composedFolder))
		require.NoError(t, os.MkdirAll(composedFolder, 0o755))
		for name, text := range texts {
			require.NoError(t, os.WriteFile(filepath.Join(composedFolder, name), []byte(text), 0o600))
		}
	}
	files, err := filepath.Glob(composedFolder + "/*.lua")
	require.NoError(t, err)
	assert.Len(t, files, len(texts), "make lua removes what is too much")
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(composedFolder, name))
		require.NoError(t, err, "make lua writes it")
		assert.Equal(t, want, string(got), "%s: make lua writes it, after a change that is meant", name)
	}
}

// What several scripts do stands in each of them, so that each can be read alone. It must stay the same.
func TestScriptsSayTheSameInTheSameWords(t *testing.T) {
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	others, err := filepath.Glob("../internal/*/*.lua")
	require.NoError(t, err)
	files = append(files, others...)
	assert.Len(t, files, 16)
	section := regexp.MustCompile(`(?ms)^-- begin (\w+).*?^-- end [^\n]*$`)
	seen := map[string]string{}
	times := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range section.FindAllStringSubmatch(string(text), -1) {
			first, ok := seen[m[1]]
			if !ok {
				seen[m[1]] = m[0]
				continue
			}
			times++
			assert.Equal(t, first, m[0], f)
		}
	}
	assert.Len(t, seen, 9)
	assert.Equal(t, 13, times)
}
