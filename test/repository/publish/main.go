// Command publish writes a version of the library, and of its modules that users get, into a
// folder that serves as a module proxy, as the version would be if a commit got its tags:
//
//	go run . -repo ../../.. -commit HEAD -version v0.1.0 -proxy /tmp/proxy
//	GOPROXY=file:///tmp/proxy,$(go env GOPROXY) GONOSUMDB=github.com/seed6c881748/* go get …
//
// scripts/release.sh, scripts/footprint.sh and the tests of this folder use it. It is a module of its own, since it takes
// what the library's users should not get.
package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const library = "github.com/seed6c881748/redlock"

// released returns the folders of all modules of a tree that users get. Those of the others serve
// the repository itself.
func released(tree string) (folders []string) {
	for _, pattern := range []string{".", "cmd/redlock", "otelredlock", "integrations/*", "integrations/redsync/redis/goredis/*"} {
		found, _ := fs.Glob(os.DirFS(tree), path.Join(pattern, "go.mod")) // No pattern is malformed.
		for _, file := range found {
			folders = append(folders, path.Dir(file))
		}
	}
	return folders
}

// versionOf is the version that a module gets. One whose folder ends in the major version of another library has that one,
// too, as the go command wants it: of v0.91.0 and v1.2.3, v9.91.0 and v9.1002.3.
func versionOf(folder, version string) string {
	major := path.Base(folder)
	if !majorRE.MatchString(major) {
		return version
	}
	own, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, patch, _ := strings.Cut(rest, ".")
	if own != "0" {
		n, _ := strconv.Atoi(minor)
		minor = strconv.Itoa(1000 + n)
	}
	return major + "." + minor + "." + patch
}

// tagOf is the tag that a module gets.
func tagOf(folder, version string) string {
	in := folder
	if majorRE.MatchString(path.Base(folder)) {
		in = path.Dir(folder) // The go command has it so.
	}
	return path.Join(in, versionOf(folder, version))
}

var majorRE = regexp.MustCompile(`^v[2-9]$`)

func main() {
	log.SetFlags(0)
	repo := flag.String("repo", ".", "the repository's folder")
	commit := flag.String("commit", "HEAD", "what to take")
	version := flag.String("version", "", "the version that it becomes")
	proxy := flag.String("proxy", "", "the folder to write to")
	flag.Parse()
	if *version == "" || *proxy == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := writeProxy(*repo, *commit, *version, *proxy); err != nil {
		log.Fatal("release: ", err)
	}
}

// writeProxy writes the modules of a commit.
func writeProxy(repo, commit, version, proxy string) (err error) {
	tree, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err = checkout(repo, commit, tree); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err != nil {
		return err
	}
	for _, folder := range released(tree) {
		dir := filepath.Join(tree, filepath.FromSlash(folder))
		// Modules of subfolders get the license of the root, as with the go command.
		if err = os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o600); err != nil {
			return err
		}
		m := module.Version{Path: path.Join(library, folder), Version: versionOf(folder, version)}
		if err = writeModule(dir, m, proxy); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// checkout writes the files of a commit.
func checkout(repo, commit, dir string) error {
	cmd := exec.Command("git", "-C", repo, "archive", "--format=zip", commit)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, &stderr)
	}
	files, err := zip.NewReader(bytes.NewReader(out), int64(len(out)))
	if err != nil {
		return err
	}
	return os.CopyFS(dir, files)
}

// writeModule writes the files with which a proxy answers, see https://go.dev/ref/mod#goproxy-protocol.
func writeModule(from string, m module.Version, proxy string) error {
	to := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	var files bytes.Buffer
	if err = modzip.CreateFromDir(&files, m, from); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": mod, m.Version + ".zip": files.Bytes(),
	} {
		if err = os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
