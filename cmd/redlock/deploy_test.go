package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The units of examples/deploy run the tool, with client.env, on nodes with redis.conf and users.acl.
func TestDeployedUnits(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../examples/deploy/" + name)
		require.NoError(t, err)
		return string(text)
	}
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	certificate, err := testcluster.NewCertificate()
	require.NoError(t, err)
	ca, _, err := certificate.Write(t.TempDir())
	require.NoError(t, err)
	// A server ends if this folder is not there, although the command line names another one.
	config := write("redis.conf", strings.Replace(read("redis.conf"), "\ndir ", "\n#dir ", 1))
	c := testcluster.RunServers(t, 3, testcluster.WithConfig(config), testcluster.WithTLS(certificate),
		testcluster.WithArgs("--aclfile", write("users.acl", read("users.acl"))))
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.TLSAddr())
	}
	here := map[string]string{
		"REDLOCK_NODES": strings.Join(addrs, ","), "REDLOCK_TLS_CA": ca,
		"REDLOCK_PASSWORD_FILE": write("password", "CHANGE-THIS-LOCKER\n"),
	}
	for line := range strings.Lines(read("client.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			if other, is := here[name]; is {
				value = other
			}
			t.Setenv(name, value)
		}
	}
	execStart := func(unit string) []string {
		found := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/redlock (.*)$`).FindStringSubmatch(read(unit))
		require.NotNil(t, found)
		line := strings.ReplaceAll(found[1], "${CREDENTIALS_DIRECTORY}/checker", write("checker", "CHANGE-THIS-CHECKER\n"))
		words := strings.Fields(strings.ReplaceAll(line, "/usr/local/bin/report", "true"))
		return append(append([]string{words[0]}, slow...), words[1:]...)
	}
	code, out, errOut := execTool(t, nil, execStart("redlock-check.service")...)
	assert.Equal(t, exitNo, code, "the nodes are in quarantine: %s%s", out, errOut)
	code, _, errOut = execTool(t, nil, append(append([]string{"admit"}, slow...), addrs...)...)
	require.Zero(t, code, errOut)
	code, out, errOut = execTool(t, nil, execStart("redlock-check.service")...)
	assert.Zero(t, code, "%s%s", out, errOut)
	code, _, errOut = execTool(t, nil, execStart("redlock-report.service")...)
	assert.Zero(t, code, errOut)
	code, _, errOut = execTool(t, nil, runArgs("--wait", "0", "report", "--", "true")...)
	assert.Equal(t, exitTaken, code, errOut)
	assert.Contains(t, read("redlock-report.service"), "\nSuccessExitStatus=75\n")
}
