package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The files of examples/deploy are for the same nodes and the same clients, so what they say of them must fit.
// test/servers starts servers with redis.conf and users.acl; nothing here starts containers.

const deployed = repo + "/examples/deploy/"

func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deployed + name)
	require.NoError(t, err)
	return string(text)
}

// settings reads lines of a name and a value.
func settings(t *testing.T, name, separator string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(deployFile(t, name)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, value, found := strings.Cut(line, separator)
		require.True(t, found, "%s: %s", name, line)
		require.NotContains(t, all, key, name)
		all[key] = value
	}
	return all
}

// at is what YAML has at a path of names and places; nil if there is nothing.
func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

func readYAML(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// kubernetesObjects are those of kubernetes.yaml, by kind and, of services, by name.
func kubernetesObjects(t *testing.T) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for text := range strings.SplitSeq(deployFile(t, "kubernetes.yaml"), "\n---\n") {
		o := readYAML(t, text)
		key := at(o, "kind").(string)
		if key == "Service" {
			key += " " + at(o, "metadata.name").(string)
		}
		require.NotContains(t, objects, key)
		objects[key] = o
	}
	return objects
}

const (
	podSpec   = "spec.template.spec."
	container = podSpec + "containers.0."
)

func megabytes(t *testing.T, size string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimRight(size, "mbMi"))
	require.NoError(t, err)
	return n
}

// A node that restarts is in quarantine for the longest ttl, and clients have to find it. If the next one is taken away
// before that, nobody gets a lock; two that are ready count for a budget, whatever minReadySeconds is.
func TestDeployedPodsAreReplacedOneByOne(t *testing.T) {
	conf, env, objects := settings(t, "redis.conf", " "), settings(t, "client.env", "="), kubernetesObjects(t)
	set, budget := objects["StatefulSet"], objects["PodDisruptionBudget"]
	longest, err := time.ParseDuration(env["REDLOCK_QUARANTINE"])
	require.NoError(t, err)
	least := int((longest + 30*time.Second).Seconds())
	assert.GreaterOrEqual(t, at(set, "spec.minReadySeconds"), least)
	assert.Equal(t, "RollingUpdate", at(set, "spec.updateStrategy.type"))
	assert.Len(t, at(set, podSpec+"containers"), 1)
	assert.GreaterOrEqual(t, at(set, container+"readinessProbe.initialDelaySeconds"), least)
	assert.Nil(t, at(set, container+"livenessProbe"))
	assert.Equal(t, 1, at(budget, "spec.maxUnavailable"))
	assert.Equal(t, at(set, "spec.selector"), at(budget, "spec.selector"))
	assert.Equal(t, at(set, "spec.template.metadata.labels.app"), at(set, "spec.selector.matchLabels.app"))
	const apart = podSpec + "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	require.Len(t, at(set, apart), 1)
	assert.Equal(t, "kubernetes.io/hostname", at(set, apart+".0.topologyKey"))
	assert.Equal(t, at(set, "spec.selector"), at(set, apart+".0.labelSelector"))
	assert.GreaterOrEqual(t, megabytes(t, at(set, container+"resources.limits.memory").(string)), 2*megabytes(t, conf["maxmemory"]))
}

// Clients, services, pods and containers name the same nodes, on the same port.
func TestDeployedNodesAreThoseOfClients(t *testing.T) {
	conf, env, objects := settings(t, "redis.conf", " "), settings(t, "client.env", "="), kubernetesObjects(t)
	set, compose, port := objects["StatefulSet"], readYAML(t, deployFile(t, "compose.yaml")), conf["tls-port"]
	assert.Equal(t, "0", conf["port"])
	assert.Equal(t, "true", env["REDLOCK_TLS"])
	assert.Equal(t, port, fmt.Sprint(at(set, container+"ports.0.containerPort")))
	nodes := strings.Split(env["REDLOCK_NODES"], ",")
	assert.Len(t, nodes, at(set, "spec.replicas").(int))
	assert.Len(t, objects, len(nodes)+len([]string{"StatefulSet", "PodDisruptionBudget"}))
	assert.Len(t, at(compose, "services"), len(nodes))
	published := map[string]bool{}
	for i, node := range nodes {
		name := fmt.Sprint(at(set, "metadata.name"), "-", i)
		assert.Equal(t, name+":"+port, node)
		s, c := objects["Service "+name], at(compose, "services."+name)
		assert.Equal(t, map[string]any{"statefulset.kubernetes.io/pod-name": name}, at(s, "spec.selector"))
		assert.Equal(t, true, at(s, "spec.publishNotReadyAddresses"), "a node in quarantine has to be found")
		assert.Len(t, at(s, "spec.ports"), 1)
		assert.Equal(t, port, fmt.Sprint(at(s, "spec.ports.0.port")))
		assert.Equal(t, at(set, container+"ports.0.name"), at(s, "spec.ports.0.targetPort"))
		assert.Equal(t, at(set, container+"image"), at(c, "image"))
		assert.Equal(t, at(set, container+"command"), at(c, "command"))
		assert.Len(t, at(c, "ports"), 1)
		assert.Regexp(t, `^127\.0\.0\.1:\d+:`+port+`$`, at(c, "ports.0"))
		published[at(c, "ports.0").(string)] = true
		assert.Equal(t, conf["dir"], at(c, "working_dir"))
		assert.Contains(t, at(c, "volumes"), name+":"+conf["dir"])
		assert.Contains(t, at(compose, "volumes"), name)
		for _, file := range []string{"redis.conf", "users.acl", "tls"} {
			assert.Contains(t, at(c, "volumes"), "./"+file+":"+filepath.Dir(conf["aclfile"])+"/"+file+":ro")
		}
	}
	assert.Len(t, published, len(nodes))
}

// The users are those that clients and units name, with the rights that the documents give them.
func TestDeployedUsersHaveTheDocumentedRights(t *testing.T) {
	env := settings(t, "client.env", "=")
	users := map[string]string{}
	for line := range strings.Lines(deployFile(t, "users.acl")) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		require.Equal(t, "user", words[0])
		users[words[1]] = words[2]
	}
	assert.Equal(t, "off ~* &* +@all", users["default"])
	documented := regexp.MustCompile(`(?m)^user locker on >secret (.*)$`).FindStringSubmatch(committed(t, "docs/operations.md"))
	require.NotNil(t, documented)
	assert.Equal(t, "on >CHANGE-THIS-LOCKER "+documented[1], users[env["REDLOCK_USER"]])
	assert.Equal(t, "on >CHANGE-THIS-CHECKER "+documented[1]+" +config|get +client|info +acl|getuser", users["checker"])
	assert.Contains(t, users["locker"], " ~"+env["REDLOCK_PREFIX"]+"* ")
	assert.Len(t, users, 4, "and an operator, as the default user is off")
	assert.Contains(t, deployFile(t, "redlock-check.service"), " --user checker ")
	assert.NotContains(t, deployFile(t, "client.env"), "PASSWORD=")
}
