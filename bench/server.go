package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

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

// serverCPU returns the processor time that all servers have used by their own
// account. The client that makes them work less has more of the machine.
func serverCPU(cluster *testcluster.Cluster) (time.Duration, error) {
	var sum time.Duration
	for _, addr := range cluster.Addrs() {
		d, err := oneServerCPU(addr)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

func oneServerCPU(addr string) (time.Duration, error) {
	const timeout = 5 * time.Second
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	info, err := redis.String(conn.Do("INFO", "cpu"))
	if err != nil {
		return 0, err
	}
	var seconds float64
	for _, line := range strings.Split(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %q: %w", line, err)
		}
		seconds += f
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
