package main

import (
	"fmt"
	"maps"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// environment says what the figures were measured with.
func environment(s settings) (string, error) {
	server, err := serverVersion()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s/%s, GOMAXPROCS %d on %d cores that clients and servers share; %s on loopback TCP, %d nodes unless stated otherwise; "+
		"%s; ttl %v; commit %s; `%s`.", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.NumCPU(),
		server, s.nodes, strings.Join(libraryVersions(), ", "), s.ttl, commit(), s.command()), nil
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

// libraryVersions returns the names and versions of those libraries that were built in.
func libraryVersions() []string {
	versions, known := moduleVersions(), map[string]string{}
	for _, l := range compared {
		for _, m := range l.Modules {
			if v := versions[m]; v != "" {
				known[m] = libraryName(m) + " " + v
			}
		}
	}
	if len(known) == 0 {
		return []string{"libraries of unknown versions"}
	}
	var all []string
	for _, m := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[m])
	}
	return all
}

var majorRE = regexp.MustCompile(`^v[0-9]+$`)

// libraryName returns the last element of a module's path that is no version, and the one
// before it if that alone says nothing.
func libraryName(module string) string {
	if dir, last := path.Split(module); majorRE.MatchString(last) {
		module = path.Clean(dir)
	}
	if name := path.Base(module); name != "client" {
		return name
	}
	return path.Base(path.Dir(module)) + " client"
}

// command returns what to type to measure the same again.
func (s settings) command() string {
	var flags []string
	for i := 0; i < len(s.args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(s.args[i], "-"), "=")
		if name == "write" || name == "cpuprofile" { // What was measured does not depend on them.
			if !joined {
				i++
			}
			continue
		}
		flags = append(flags, s.args[i])
	}
	if len(flags) == 0 {
		return "make bench"
	}
	return fmt.Sprintf(`make bench BENCHFLAGS="%s"`, strings.Join(flags, " "))
}
