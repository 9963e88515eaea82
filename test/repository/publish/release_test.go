package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tool is the folder of the module that each clone has.
const tool = "cmd/redlock"

// A clone is a throw-away copy of the repository, at the commit of this one.
type clone struct{ consumer }

// Of the modules besides the library it has the tool, and these. They stand for all: each takes its time to be got with all
// that it requires.
func newClone(t *testing.T, modules ...string) clone {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	out, err := exec.Command("git", "clone", "-q", absolute(t, repo), dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	c := clone{consumer{t, dir, append(os.Environ(), "CHECK=true", "PACK=true")}}
	c.git("checkout", "-q", "-B", "main")
	c.git("config", "user.name", "A Tester")
	c.git("config", "user.email", "tester@example.com")
	c.git("config", "commit.gpgsign", "false")
	for _, folder := range c.modules() {
		if folder != tool && !slices.Contains(modules, folder) {
			require.NoError(t, os.RemoveAll(filepath.Join(c.dir, folder)))
		}
	}
	// What users have noticed since the last version: there may be nothing at the moment.
	c.write("CHANGELOG.md", strings.Replace(c.file("HEAD", "CHANGELOG.md"), "## Unreleased\n", "## Unreleased\n\n- A change.\n", 1))
	c.git("commit", "-q", "-a", "-m", "Note a change")
	return c
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.run("git", args...))
}

func (c clone) file(commit, name string) string {
	c.t.Helper()
	return c.run("git", "cat-file", "blob", commit+":"+name)
}

// modules are the folders of the modules, besides the library, that this commit has and users get.
func (c clone) modules() []string { return released(c.dir)[1:] }

// release runs the script.
func (c clone) release(version string) (string, error) {
	cmd := exec.Command("sh", "scripts/release.sh", version)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestARelease(t *testing.T) {
	requireShell(t)
	const next = "v0.91.0"
	// The last one requires the two before it.
	besides := []string{"integrations/goredis", "integrations/redsync", "integrations/redsync/redis/goredis/v9"}
	c := newClone(t, besides...)
	require.ElementsMatch(t, append(besides, tool), c.modules())
	before := c.git("rev-parse", "HEAD")
	noted := filepath.Join(t.TempDir(), "noted")
	pack := fmt.Sprintf("echo \"$GORELEASER_CURRENT_TAG $(git rev-parse HEAD)\" >'%s'\n", noted)
	require.NoError(t, os.WriteFile(noted+".sh", []byte(pack), 0o600))
	c.env = append(c.env, "PACK=sh "+noted+".sh")
	if !testing.Short() {
		c.env = append(c.env, "PACK=") // The real ones.
	}
	out, err := c.release(next)
	require.NoError(t, err, out)
	assert.Empty(t, c.git("status", "--porcelain"))
	assert.Equal(t, c.git("tag", "--list"), c.git("tag", "--list", "--merged", before), "it sets no tag")
	const commit = "HEAD~1"
	assert.Equal(t, before, c.git("rev-parse", commit+"~1"))
	assert.Regexp(t, `## Unreleased\n\n## 0\.91\.0 - \d{4}-\d\d-\d\d\n\n- A change\.\n`, c.file(commit, "CHANGELOG.md"))

	for _, page := range strings.Fields(c.git("ls-files", "*.md", "llms.txt")) {
		assert.NotRegexp(t, "(?i)not published yet|until the first release|-replace", c.file(commit, page), page)
		if strings.HasPrefix(page, "README") {
			assert.Contains(t, c.file(commit, page), "```\ngo mod init example.com/job\ngo mod tidy\ngo run .\n```\n\n## ")
		}
	}

	proxy := t.TempDir()
	require.NoError(t, writeProxy(c.dir, commit, next, proxy))
	user := newConsumer(t, proxy)
	for _, folder := range released(c.dir) {
		tag := tagOf(folder, next)
		assert.Contains(t, out, fmt.Sprintf("git tag -a %s -m '%s' %s", tag, tag, c.git("rev-parse", commit)))
		user.run("go", "get", path.Join(library, folder)+"@"+versionOf(folder, next))
	}
	for _, folder := range c.modules() {
		mod := c.file(commit, folder+"/go.mod")
		assert.NotContains(t, mod, "replace", "go install takes no module with one")
		assert.Contains(t, mod, library+" "+next+"\n")
		assert.Contains(t, c.file("HEAD", folder+"/go.mod"), library+" => ../", "built from what is beside it again")
		c.run("go", "-C", folder, "mod", "tidy", "-diff")
	}
	bin := t.TempDir()
	user.env = append(user.env, "GOBIN="+bin)
	user.run("go", "install", library+"/"+tool+"@"+next)
	assert.Contains(t, user.run(filepath.Join(bin, "redlock"), "--help"), "redlock")
	if testing.Short() {
		text, err := os.ReadFile(noted)
		require.NoError(t, err)
		assert.Equal(t, next+" "+c.git("rev-parse", commit)+"\n", string(text), "the packages are those of the release")
	} else {
		checkPackages(t, filepath.Join(c.dir, "build", "dist"), next)
	}
}

func TestAReleaseIsRefused(t *testing.T) {
	requireShell(t)
	c := newClone(t)
	before := c.git("rev-parse", "HEAD")
	refused := func(version, says string) {
		t.Helper()
		out, err := c.release(version)
		require.Error(t, err)
		assert.Contains(t, out, says)
		assert.Equal(t, before, c.git("rev-parse", "HEAD"))
	}
	for _, no := range []string{"", "v2.0.0", "0.91.0", "v0.091.0", "v0.91.0\nv0.92.0", "v0.91.0-"} {
		refused(no, "usage")
	}
	c.write("new.txt", "x")
	refused("v0.91.0", "not committed")
	c.git("clean", "-q", "-f")
	c.git("tag", "v0.91.0")
	refused("v0.91.0", "exists")
	c.git("checkout", "-q", "--detach")
	refused("v0.92.0", "branch")
	c.git("checkout", "-q", "main")
	c.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2020-02-02\n\n- All.\n")
	c.git("commit", "-q", "-a", "-m", "Empty the changelog")
	before = c.git("rev-parse", "HEAD")
	refused("v0.92.0", "nothing under")
	c.env = append(c.env, "CHECK=false")
	c.git("reset", "-q", "--hard", "HEAD~1")
	before = c.git("rev-parse", "HEAD")
	refused("v0.92.0", "checks fail")
}

// Whatever goes wrong in the middle, nothing is left of it: here the last thing does.
func TestAReleaseThatFailsLeavesTheBranchAsItWas(t *testing.T) {
	requireShell(t)
	c := newClone(t)
	c.env = append(c.env, "PACK=false")
	before := c.git("rev-parse", "HEAD")
	out, err := c.release("v0.91.0")
	require.Error(t, err, out)
	assert.Equal(t, before, c.git("rev-parse", "HEAD"))
	assert.Equal(t, "main", c.git("symbolic-ref", "--short", "HEAD"))
	assert.Empty(t, c.git("status", "--porcelain"))
}

// requireShell skips a test on systems on which nobody makes a release.
func requireShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a POSIX shell")
	}
}

func TestVersionOfAModuleWithAMajorVersionOfItsOwn(t *testing.T) {
	const pools = "integrations/redsync/redis/goredis/"
	for version, want := range map[string]string{"v0.91.0": "v9.91.0", "v1.2.3": "v9.1002.3", "v1.0.0-rc.1": "v9.1000.0-rc.1"} {
		assert.Equal(t, want, versionOf(pools+"v9", version))
		assert.Equal(t, pools+want, tagOf(pools+"v9", version))
	}
}
