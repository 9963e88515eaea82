package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

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
	name, rest, _ := strings.Cut(string(bytes.TrimSpace(out)), " ")
	for _, word := range strings.Fields(rest) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return strings.ToLower(name) + "-server " + v, nil
		}
	}
	return string(bytes.TrimSpace(out)), nil
}
