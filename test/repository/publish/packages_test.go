package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// GoReleaser is too long to compile for each change, so this is what a change can break.
func TestPackagesAreOfFilesThatExist(t *testing.T) {
	requireShell(t)
	c := newClone(t)
	c.run("sh", "scripts/manual.sh", "v0.91.0", "build/manual")
	c.run("sh", "scripts/notices.sh", "v0.91.0", "2026-11-23T08:59:31Z", "build/manual")
	config := c.file("HEAD", ".goreleaser.yaml")
	require.NoError(t, yaml.Unmarshal([]byte(config), &map[string]any{}))
	assert.Contains(t, config, "- sh scripts/manual.sh v{{ .Version }} build/manual\n")
	assert.Contains(t, config, "- sh scripts/notices.sh v{{ .Version }} {{ .CommitDate }} build/manual\n")
	assert.Contains(t, config, "- LICENSE\n")
	named := regexp.MustCompile(`(?m)(?:src| dir|changelog): (\S+/\S+)$`).FindAllStringSubmatch(config, -1)
	assert.GreaterOrEqual(t, len(named), 10)
	for _, name := range named {
		found, err := filepath.Glob(filepath.Join(c.dir, name[1]))
		require.NoError(t, err)
		assert.NotEmpty(t, found, name[1])
	}
	checkNotices(t, filepath.Join(c.dir, "build/manual"))
	page := gunzip(t, filepath.Join(c.dir, "build/manual/redlock.1.gz"))
	assert.Contains(t, page, `"redlock v0.91.0"`)
	assert.Regexp(t, `(?m)^var packaged string$`, c.file("HEAD", "cmd/redlock/version.go"), "what -X sets")
}

// checkNotices checks that a folder has the licences of all that is in the program, and Debian's file of them no text
// that every Debian has.
func checkNotices(t *testing.T, folder string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		return string(text)
	}
	licences, copyright := read("third-party.txt"), read("copyright")
	for _, module := range []string{"github.com/gomodule/redigo", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "golang.org/x/term", "go"} {
		assert.Regexp(t, `(?m)^`+module+` v?\S*\d`, licences)
		assert.Contains(t, copyright, "\nFiles: "+module+"/*\nCopyright: ")
	}
	assert.Contains(t, licences, "\ngithub.com/inconshreveable/mousetrap ", "on Windows")
	assert.Contains(t, licences, "TERMS AND CONDITIONS FOR USE")
	assert.NotContains(t, copyright, "TERMS AND CONDITIONS FOR USE")
	assert.Contains(t, copyright, "/usr/share/common-licenses/Apache-2.0")
	assert.Regexp(t, `(?m)^Copyright: \d{4} The redlock authors$`, copyright)
	assert.NotContains(t, licences, library, "the program's own licence is apart")
	assert.Contains(t, read("changelog.yaml"), "- semver: 0.91.0-1\n  date: 2026-11-23T08:59:31Z\n  packager: The maintainers of redlock <")
}

// TestPackages builds them all, as a snapshot.
func TestPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("GoReleaser takes minutes to compile; make packages-test")
	}
	requireShell(t)
	out, err := exec.Command("make", "-C", repo, "packages").CombinedOutput()
	require.NoError(t, err, "%s", out)
	dist := filepath.Join(repo, "build", "dist")
	var made struct{ Version string }
	text, err := os.ReadFile(filepath.Join(dist, "metadata.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &made))
	assert.Contains(t, made.Version, "-snapshot.")
	checkPackages(t, dist, "v"+made.Version)
	t.Run("the .deb", func(t *testing.T) {
		found, err := filepath.Glob(filepath.Join(dist, "redlock_*_"+runtime.GOARCH+".deb"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		tryDebianPackage(t, found[0])
	})
	t.Run("by lintian", func(t *testing.T) {
		_, err := exec.LookPath("lintian")
		need(t, err == nil, "lintian is not here")
		found, err := filepath.Glob(filepath.Join(dist, "*.deb"))
		require.NoError(t, err)
		for _, deb := range found {
			run(t, "lintian", "--fail-on", "error,warning", deb)
		}
	})
}

// checkPackages checks that a folder has all that is published of a version.
func checkPackages(t *testing.T, dist, version string) {
	t.Helper()
	number := strings.TrimPrefix(version, "v")
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			name, program, list := "redlock_"+number+"_"+system+"_"+arch, "redlock", untar
			suffix := ".tar.gz"
			if system == "windows" {
				program, list, suffix = "redlock.exe", unzip, ".zip"
			}
			files := list(t, filepath.Join(dist, name+suffix))
			for _, want := range []string{
				program, "LICENSE", "third-party.txt", "man/redlock.1.gz", "completions/redlock.bash", "completions/_redlock",
				"completions/redlock.fish", "completions/redlock.ps1",
			} {
				assert.NotEmpty(t, files[want], "%s has no %s", name+suffix, want)
			}
			assert.FileExists(t, filepath.Join(dist, name+".cdx.json"))
			if system == runtime.GOOS && arch == runtime.GOARCH {
				file := filepath.Join(t.TempDir(), "redlock")
				require.NoError(t, os.WriteFile(file, files[program], 0o700)) //nolint:gosec // It is run.
				assert.True(t, strings.HasPrefix(run(t, file, "version"), "redlock "+version+" ("))
			}
		}
	}
	for _, pattern := range []string{"*.deb", "*.rpm"} {
		found, err := filepath.Glob(filepath.Join(dist, pattern))
		require.NoError(t, err)
		assert.Len(t, found, 2, pattern)
	}
	sums := exec.Command("sha256sum", "--check", "--quiet", "checksums.txt")
	sums.Dir = dist
	out, err := sums.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func untar(t *testing.T, file string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(strings.NewReader(gunzip(t, file)))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
	}
}

func unzip(t *testing.T, file string) map[string][]byte {
	t.Helper()
	archive, err := zip.OpenReader(file)
	require.NoError(t, err)
	defer func() { _ = archive.Close() }()
	files := map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(t, err)
		files[f.Name], err = io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
	return files
}

func gunzip(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

// tryDebianPackage installs the package on this machine, and removes it again.
func tryDebianPackage(t *testing.T, deb string) {
	t.Helper()
	need(t, os.Getuid() == 0, "it takes root to install a package")
	for _, program := range []string{"dpkg", "man", "bash"} {
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

	run(t, "dpkg", "-r", "redlock")
	assert.Equal(t, before, present(t, deb), "what is there without the package")
	require.Error(t, exec.Command("dpkg-query", "-W", "redlock").Run(), "dpkg knows nothing of it any more")
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
