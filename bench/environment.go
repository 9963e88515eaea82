package main

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// environment says what the figures were measured with.
func environment(s settings) (string, error) {
	server, err := serverVersion()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s/%s, GOMAXPROCS %d on %d cores that clients and servers share; %s on loopback TCP, "+
		"%d nodes unless stated otherwise; %s; ttl %v; commit %s; `%s`.",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.NumCPU(), server,
		s.nodes, strings.Join(libraryVersions(), ", "), s.ttl, commit(), s.command), nil
}

var versionRE = regexp.MustCompile(`^(\S+) server v=(\S+)`)

// serverVersion returns the name and version of the server that is run.
func serverVersion() (string, error) {
	bin, err := testcluster.ServerBinary()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", bin, err)
	}
	if m := versionRE.FindStringSubmatch(string(out)); m != nil {
		return strings.ToLower(m[1]) + "-server " + m[2], nil
	}
	return strings.TrimSpace(string(out)), nil
}

// commit is what the figures are of: its hash, with "-dirty" if there was more than that.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// moduleVersions returns the versions of the modules that were built in, by their paths.
func moduleVersions() map[string]string {
	versions := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			versions[dep.Path] = dep.Version
		}
	}
	return versions
}

// libraryVersions returns the modules of the libraries that were built in, with their versions.
func libraryVersions() []string {
	versions, known := moduleVersions(), map[string]bool{}
	for _, l := range compared {
		for _, m := range l.Modules {
			known[m+" "+versions[m]] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}
