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
	"syscall"
	"testing"
	"time"

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
	c := clone{consumer{t, dir, append(os.Environ(), "CHECK=true", "PACK=true", "PAGE=true")}}
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

// back makes it what it was at a commit, with no tag of a release.
func (c clone) back(commit string) {
	c.t.Helper()
	c.git("checkout", "-q", "-f", "-B", "main", commit)
	c.git("clean", "-q", "-d", "-f")
	for _, tag := range strings.Fields(c.git("tag", "--list", "v0.91.*")) {
		c.git("tag", "-d", tag)
	}
}

// modules are the folders of the modules, besides the library, that this commit has and users get.
func (c clone) modules() []string { return released(c.dir)[1:] }

// release runs the script.
func (c clone) release(version string) (string, error) {
	out, err := c.script(version).CombinedOutput()
	return string(out), err
}

func (c clone) script(version string) *exec.Cmd {
	cmd := exec.Command("sh", "scripts/release.sh", version)
	cmd.Dir, cmd.Env = c.dir, c.env
	return cmd
}

func TestARelease(t *testing.T) {
	requireShell(t)
	const next = "v0.91.0"
	// The last one requires the two before it.
	besides := []string{"otelredlock", "integrations/goredis", "integrations/redsync", "integrations/redsync/redis/goredis/v9"}
	c := newClone(t, besides...)
	require.ElementsMatch(t, append(besides, tool), c.modules())
	before := c.git("rev-parse", "HEAD")
	built := c.notePackages()
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
		assert.Equal(t, next+" "+c.git("rev-parse", commit)+"\n", built(), "the packages are those of the release")
	} else {
		checkPackages(t, filepath.Join(c.dir, "build", "dist"), next)
	}
}

// notePackages has the script note of which version and commit it builds the packages, instead of building them.
func (c *clone) notePackages() (noted func() string) {
	dir := c.t.TempDir()
	script, file := filepath.Join(dir, "packages.sh"), filepath.Join(dir, "noted")
	text := fmt.Sprintf("echo \"$GORELEASER_CURRENT_TAG $(git rev-parse HEAD)\" >>'%s'\n", file)
	require.NoError(c.t, os.WriteFile(script, []byte(text), 0o600))
	c.env = append(c.env, "PACK=sh "+script)
	return func() string {
		text, err := os.ReadFile(file)
		require.NoError(c.t, err)
		return string(text)
	}
}

func TestAReleaseIsRefused(t *testing.T) {
	requireShell(t)
	c := newClone(t)
	before := c.git("rev-parse", "HEAD")
	for name, tt := range map[string]struct {
		version string
		spoil   func(c clone)
		says    string
	}{
		"no version":                 {"", func(clone) {}, "usage"},
		"no version of this path":    {"v2.0.0", func(clone) {}, "usage"},
		"a version without its v":    {"0.91.0", func(clone) {}, "usage"},
		"a version with a leading 0": {"v0.091.0", func(clone) {}, "usage"},
		"a version of two lines":     {"v0.91.0\nv0.92.0", func(clone) {}, "usage"},
		"a pre-release without name": {"v0.91.0-", func(clone) {}, "usage"},
		"a change not committed":     {"v0.91.0", func(c clone) { c.write("new.txt", "x") }, "not committed"},
		"no branch":                  {"v0.91.0", func(c clone) { c.git("checkout", "-q", "--detach") }, "branch"},
		"a tag that is there":        {"v0.91.0", func(c clone) { c.git("tag", "v0.91.0") }, "exists"},
		"checks that fail":           {"v0.91.0", func(c clone) {}, "checks fail"},
		"a changelog with no change": {"v0.91.0", emptyChangelog, "nothing under"},
	} {
		t.Run(name, func(t *testing.T) {
			defer c.back(before)
			c := c
			if tt.says == "checks fail" {
				c.env = append(slices.Clone(c.env), "CHECK=false")
			}
			tt.spoil(c)
			spoilt := c.git("rev-parse", "HEAD")
			out, err := c.release(tt.version)
			require.Error(t, err)
			assert.Contains(t, out, tt.says)
			assert.Equal(t, spoilt, c.git("rev-parse", "HEAD"))
		})
	}
}

// Whatever goes wrong in the middle, nothing is left of it.
func TestAReleaseThatFailsLeavesTheBranchAsItWas(t *testing.T) {
	requireShell(t)
	for name, spoil := range map[string]func(c *clone){
		"a hook of git":                 func(c *clone) { c.hook("exit 1") },
		"packages that cannot be built": func(c *clone) { c.env = append(c.env, "PACK=false") },
		"a page that cannot be written": func(c *clone) { c.env = append(c.env, "PAGE=false") },
		"a module with a replace line of its own": func(c *clone) {
			c.run("go", "-C", tool, "mod", "edit", "-replace=example.com/a=../redlock")
			c.git("commit", "-q", "-a", "-m", "Replace another module")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			spoil(&c)
			before := c.git("rev-parse", "HEAD")
			out, err := c.release("v0.91.0")
			require.Error(t, err, out)
			c.requireUnchanged(before)
		})
	}
}

func TestAReleaseThatIsInterruptedLeavesTheBranchAsItWas(t *testing.T) {
	requireShell(t)
	c := newClone(t)
	before := c.git("rev-parse", "HEAD")
	begun, end := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "end")
	c.hook(fmt.Sprintf("touch '%s'; while [ ! -e '%s' ]; do sleep 0.05; done", begun, end))
	cmd := c.script("v0.91.0")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(begun)
		return err == nil
	}, 5*time.Minute, 50*time.Millisecond, "the first commit")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Error(t, cmd.Wait())
	c.requireUnchanged(before)
}

// hook has git run a script before each commit.
func (c clone) hook(script string) {
	c.t.Helper()
	path := filepath.Join(c.dir, ".git", "hooks", "pre-commit")
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // Git runs it.
}

// requireUnchanged checks that nothing has become of a release.
func (c clone) requireUnchanged(before string) {
	c.t.Helper()
	assert.Equal(c.t, before, c.git("rev-parse", "HEAD"))
	assert.Equal(c.t, "main", c.git("symbolic-ref", "--short", "HEAD"))
	assert.Empty(c.t, c.git("status", "--porcelain"))
}

func emptyChangelog(c clone) {
	c.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2020-02-02\n\n- All.\n")
	c.git("commit", "-q", "-a", "-m", "Empty the changelog")
}

// requireShell skips a test on systems on which nobody makes a release.
func requireShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a POSIX shell")
	}
}

func TestVersionOfAModuleWithAMajorVersionOfItsOwn(t *testing.T) {
	const pool = "integrations/redsync/redis/goredis/v9"
	for version, want := range map[string]string{
		"v0.91.0": "v9.91.0", "v1.2.3": "v9.1002.3", "v1.0.0-rc.1": "v9.1000.0-rc.1", "v0.2.10-beta": "v9.2.10-beta",
	} {
		assert.Equal(t, want, versionOf(pool, version))
		assert.Equal(t, "integrations/redsync/redis/goredis/"+want, tagOf(pool, version))
		assert.Equal(t, version, versionOf("integrations/redsync", version))
		assert.Equal(t, "integrations/redsync/"+version, tagOf("integrations/redsync", version))
		assert.Equal(t, version, tagOf(".", version))
	}
}
