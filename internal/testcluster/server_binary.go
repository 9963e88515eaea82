package testcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrNoServer is returned when this machine has no server to run.
var ErrNoServer = errors.New("testcluster: no redis-server or valkey-server in PATH: " +
	"install redis (or valkey), or set REDIS_SERVER to the path of a server binary")

// ServerBinary returns the server that [StartServers] runs: the environment
// variable REDIS_SERVER, else redis-server, else valkey-server from PATH. The
// error wraps [ErrNoServer] if there is none.
func ServerBinary() (string, error) {
	if name := os.Getenv("REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w (REDIS_SERVER is set to what can't be run: %w)", ErrNoServer, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}
