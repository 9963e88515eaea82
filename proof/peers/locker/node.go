package locker

import (
	"path/filepath"

	"github.com/seed6c881748/redlock/compat/node"
)

// Node is the command of the client in JavaScript, which finds its library where compat/node has installed it.
func Node() ([]string, error) {
	if err := node.Install(); err != nil {
		return nil, err
	}
	script, err := filepath.Abs(filepath.Join(node.Folder(), "..", "..", "proof", "peers", "locker", "client.js"))
	if err != nil {
		return nil, err
	}
	return []string{"env", "NODE_PATH=" + filepath.Join(node.Folder(), "node_modules"), "node", script}, nil
}
