package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// tryDebianPackage installs the package on this machine, has cron use it, and removes it again.
func tryDebianPackage(t *testing.T, deb string) {
	t.Helper()
	need(t, os.Getuid() == 0, "it takes root to install a package")
	for _, program := range []string{"dpkg", "cron", "man", "bash"} {
		_, err := exec.LookPath(program)
		need(t, err == nil, program+" is not here")
	}
	need(t, exec.Command("dpkg-query", "-W", "redlock").Run() != nil, "a package redlock is installed already")
	before := present(t, deb)

	// A container may be set up to install no manuals.
	run(t, "dpkg", "--path-include=/usr/share/*", "-i", deb)
	t.Cleanup(func() { _ = exec.Command("dpkg", "-r", "redlock").Run() })
	for path, is := range present(t, deb) {
		assert.True(t, is, path)
	}
	assert.Equal(t, "/usr/bin/redlock\n", run(t, "sh", "-c", "command -v redlock"))
	assert.Equal(t, "/usr/share/man/man1/redlock.1.gz\n", run(t, "man", "-w", "redlock"))
	assert.Contains(t, run(t, "man", "redlock"), "redlock run [FLAGS] RESOURCE")
	assert.Contains(t, run(t, "bash", "-c", ". /usr/share/bash-completion/completions/redlock && complete -p redlock"), " redlock\n")
	for _, path := range []string{
		"/usr/share/zsh/vendor-completions/_redlock", "/usr/share/fish/vendor_completions.d/redlock.fish",
		"/usr/share/doc/redlock/copyright",
	} {
		assert.Contains(t, before, path)
	}
	tryCrontab(t)

	run(t, "dpkg", "-r", "redlock")
	assert.Equal(t, before, present(t, deb), "what is there without the package")
	require.Error(t, exec.Command("dpkg-query", "-W", "redlock").Run(), "dpkg knows nothing of it any more")
}

// tryCrontab has a real cron run the recipe of docs/tool.md.
func tryCrontab(t *testing.T) {
	t.Helper()
	recipe := regexp.MustCompile(`(?m)^    REDLOCK_NODES=\S+\n    (\* \* \* \* \*)  (.*) /usr/local/bin/report\n`).
		FindStringSubmatch(committed(t, "docs/tool.md"))
	require.NotNil(t, recipe, "docs/tool.md has a crontab")
	servers := testcluster.RunServers(t, 3)
	nodes := strings.Join(servers.Addrs(), ",")

	dir := t.TempDir()
	job, ran := filepath.Join(dir, "report"), filepath.Join(dir, "ran")
	require.NoError(t, os.WriteFile(job, fmt.Appendf(nil, "#!/bin/sh\nenv >>%s.new\nmv %[1]s.new %[1]s\n", ran), 0o700)) //nolint:gosec // cron runs it.
	crontab := fmt.Sprintf("/etc/cron.d/redlock-test-%d", os.Getpid())
	text := fmt.Sprintf("REDLOCK_NODES=%s\n%s root %s %s\n", nodes, recipe[1], recipe[2], job)
	require.NoError(t, os.WriteFile(crontab, []byte(text), 0o644)) //nolint:gosec // cron reads no other.
	t.Cleanup(func() { _ = os.Remove(crontab) })

	// If the system has a cron that runs, this one ends at once, and that one runs the job.
	cron := exec.Command("cron", "-f")
	require.NoError(t, cron.Start())
	t.Cleanup(func() {
		_ = cron.Process.Kill()
		_ = cron.Wait()
	})
	var env string
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ran)
		env = string(text)
		return err == nil
	}, 10*time.Minute, 100*time.Millisecond, "cron runs it each minute")
	assert.Contains(t, env, "REDLOCK_RESOURCES=report\n")
	assert.Contains(t, env, "\nPATH=/usr/bin:/bin\n", "cron's environment, not the test's")

	// What another machine's cron would do in the same minute.
	other := exec.Command("sh", "-c", recipe[2]+" "+job)
	other.Env = []string{"PATH=/usr/bin:/bin", "REDLOCK_NODES=" + nodes}
	out, err := other.CombinedOutput()
	assert.Empty(t, string(out), "cron would mail it")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 75, exit.ExitCode(), "the lock is kept for --at-least")
}

// need skips the test of a package where it cannot be run; in CI it fails.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatal(what)
	default:
		t.Skip(what)
	}
}

// present says which of the paths of a package exist on this machine.
func present(t *testing.T, deb string) map[string]bool {
	t.Helper()
	out, err := exec.Command("sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar t`, "sh", deb).Output()
	require.NoError(t, err)
	paths := map[string]bool{}
	for _, path := range strings.Fields(string(out)) {
		path = filepath.Join("/", path)
		_, err = os.Lstat(path)
		paths[path] = err == nil
	}
	require.Contains(t, paths, "/usr/bin/redlock")
	return paths
}

// run runs a program with the environment that cron gives it, and returns what it has printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "MANPAGER=cat", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return string(out)
}
