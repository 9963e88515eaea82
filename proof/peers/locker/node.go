package locker

import (
	"path/filepath"

	"github.com/seed6c881748/redlock/compat/node"
)

// Node is the command of the client in JavaScript.
func Node() ([]string, error) {
	if err := node.Install(); err != nil {
		return nil, err
	}
	return []string{"node", filepath.Join(node.Folder(), "course.js")}, nil
}
