package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// kubernetes is what is read of kubernetes.yaml, of all kinds of objects.
type kubernetes struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas                 int
		MinReadySeconds          int                                        `yaml:"minReadySeconds"`
		MaxUnavailable           int                                        `yaml:"maxUnavailable"`
		PublishNotReadyAddresses bool                                       `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]any                             `yaml:"selector"`
		Ports                    []map[string]any                           `yaml:"ports"`
		UpdateStrategy           map[string]string                          `yaml:"updateStrategy"`
		VolumeClaimTemplates     []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
		Template                 struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Affinity struct {
					PodAntiAffinity struct {
						Required []map[string]any `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
					} `yaml:"podAntiAffinity"`
				}
				Containers []struct {
					Image          string
					Command        []string
					Ports          []map[string]any
					ReadinessProbe struct {
						InitialDelaySeconds int `yaml:"initialDelaySeconds"`
					} `yaml:"readinessProbe"`
					LivenessProbe any                                `yaml:"livenessProbe"`
					Resources     struct{ Limits map[string]string } `yaml:"resources"`
					VolumeMounts  []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []map[string]any
			}
		}
	}
}

func kubernetesObjects(t *testing.T) (set kubernetes, budget kubernetes, services map[string]kubernetes) {
	t.Helper()
	services = map[string]kubernetes{}
	for text := range strings.SplitSeq(deployFile(t, "kubernetes.yaml"), "\n---\n") {
		var o kubernetes
		require.NoError(t, yaml.Unmarshal([]byte(text), &o))
		switch o.Kind {
		case "StatefulSet":
			set = o
		case "PodDisruptionBudget":
			budget = o
		case "Service":
			services[o.Metadata.Name] = o
		default:
			t.Errorf("a %q", o.Kind)
		}
	}
	return set, budget, services
}

func megabytes(t *testing.T, size string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimRight(size, "mbMi"))
	require.NoError(t, err)
	return n
}

// A node that restarts is in quarantine for the longest ttl, and clients have to find it. If the next one is taken away
// before that, nobody gets a lock; two that are ready count for a budget, whatever minReadySeconds is.
func TestDeployedPodsAreReplacedOneByOne(t *testing.T) {
	conf, env := settings(t, "redis.conf", " "), settings(t, "client.env", "=")
	set, budget, _ := kubernetesObjects(t)
	longest, err := time.ParseDuration(env["REDLOCK_QUARANTINE"])
	require.NoError(t, err)
	least := int((longest + 30*time.Second).Seconds())
	assert.GreaterOrEqual(t, set.Spec.MinReadySeconds, least)
	assert.Equal(t, "RollingUpdate", set.Spec.UpdateStrategy["type"])
	require.Len(t, set.Spec.Template.Spec.Containers, 1)
	redis := set.Spec.Template.Spec.Containers[0]
	assert.GreaterOrEqual(t, redis.ReadinessProbe.InitialDelaySeconds, least)
	assert.Nil(t, redis.LivenessProbe)
	assert.Equal(t, 1, budget.Spec.MaxUnavailable)
	assert.Equal(t, set.Spec.Selector, budget.Spec.Selector)
	assert.Equal(t, set.Spec.Template.Metadata.Labels["app"], set.Spec.Selector["matchLabels"].(map[string]any)["app"])
	apart := set.Spec.Template.Spec.Affinity.PodAntiAffinity.Required
	require.Len(t, apart, 1)
	assert.Equal(t, "kubernetes.io/hostname", apart[0]["topologyKey"])
	assert.Equal(t, set.Spec.Selector, apart[0]["labelSelector"])
	assert.GreaterOrEqual(t, megabytes(t, redis.Resources.Limits["memory"]), 2*megabytes(t, conf["maxmemory"]))
}

// Clients, services and pods name the same nodes, on the same port.
func TestDeployedNodesAreThoseOfClients(t *testing.T) {
	conf, env := settings(t, "redis.conf", " "), settings(t, "client.env", "=")
	set, _, services := kubernetesObjects(t)
	port := conf["tls-port"]
	assert.Equal(t, "0", conf["port"])
	assert.Equal(t, "true", env["REDLOCK_TLS"])
	var compose struct {
		Services map[string]struct {
			Image   string
			Command []string
			Ports   []string
			Volumes []string
			Dir     string `yaml:"working_dir"`
		}
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, "compose.yaml")), &compose))
	pod := set.Spec.Template.Spec.Containers[0]
	assert.Equal(t, port, fmt.Sprint(pod.Ports[0]["containerPort"]))
	nodes := strings.Split(env["REDLOCK_NODES"], ",")
	assert.Len(t, nodes, set.Spec.Replicas)
	assert.Len(t, services, len(nodes))
	assert.Len(t, compose.Services, len(nodes))
	published := map[string]bool{}
	for i, node := range nodes {
		name := fmt.Sprint(set.Metadata.Name, "-", i)
		assert.Equal(t, name+":"+port, node)
		s := services[name]
		assert.Equal(t, map[string]any{"statefulset.kubernetes.io/pod-name": name}, s.Spec.Selector)
		assert.True(t, s.Spec.PublishNotReadyAddresses, "a node in quarantine has to be found")
		require.Len(t, s.Spec.Ports, 1)
		assert.Equal(t, port, fmt.Sprint(s.Spec.Ports[0]["port"]))
		assert.Equal(t, pod.Ports[0]["name"], s.Spec.Ports[0]["targetPort"])
		c := compose.Services[name]
		assert.Equal(t, pod.Image, c.Image)
		assert.Equal(t, pod.Command, c.Command)
		require.Len(t, c.Ports, 1)
		assert.True(t, strings.HasPrefix(c.Ports[0], "127.0.0.1:") && strings.HasSuffix(c.Ports[0], ":"+port), c.Ports[0])
		published[c.Ports[0]] = true
		assert.Equal(t, conf["dir"], c.Dir)
		assert.Contains(t, c.Volumes, name+":"+conf["dir"])
		assert.Contains(t, compose.Volumes, name)
		for _, file := range []string{"redis.conf", "users.acl", "tls"} {
			assert.Contains(t, c.Volumes, "./"+file+":"+filepath.Dir(conf["aclfile"])+"/"+file+":ro")
		}
	}
	assert.Len(t, published, len(nodes))
}

// The files are where redis.conf looks for them, and its data is on a disk of its own.
func TestDeployedFilesAreWhereTheConfigurationSays(t *testing.T) {
	conf := settings(t, "redis.conf", " ")
	set, _, _ := kubernetesObjects(t)
	mounted := map[string]string{}
	for _, m := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	folder := filepath.Dir(conf["aclfile"])
	assert.Equal(t, map[string]string{conf["dir"]: "data", folder: "config", filepath.Dir(conf["tls-cert-file"]): "tls"}, mounted)
	assert.Equal(t, "data", set.Spec.VolumeClaimTemplates[0].Metadata.Name)
	unit := deployFile(t, "redis-lock.service")
	assert.Contains(t, unit, "\nExecStart=/usr/bin/redis-server "+folder+"/redis.conf ")
	assert.Contains(t, unit, "\nStateDirectory="+strings.TrimPrefix(conf["dir"], "/var/lib/")+"\n")
	assert.Contains(t, unit, "\nReadWritePaths="+folder+"\n", "ACL SAVE writes there")

	var kustomization struct {
		Resources []string
		Config    []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
		Secret []struct {
			Name  string
			Files []string
		} `yaml:"secretGenerator"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, "kustomization.yaml")), &kustomization))
	assert.Equal(t, []string{"kubernetes.yaml"}, kustomization.Resources)
	text := deployFile(t, "kubernetes.yaml")
	assert.Equal(t, []string{"redis.conf"}, kustomization.Config[0].Files)
	assert.Equal(t, []string{"users.acl"}, kustomization.Secret[0].Files)
	assert.Contains(t, text, "- configMap: {name: "+kustomization.Config[0].Name+"}\n")
	assert.Contains(t, text, "- secret: {name: "+kustomization.Secret[0].Name+"}\n")
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

// systemd reads the units: systemd-analyze, where it is, and this in any case.
func TestDeployedUnitsAreUnits(t *testing.T) {
	sections := map[string][]string{".service": {"Unit", "Service", "Install"}, ".timer": {"Unit", "Timer", "Install"}}
	units, err := filepath.Glob(deployed + "*.*er*") // .service, .timer
	require.NoError(t, err)
	units = slices.DeleteFunc(units, func(name string) bool { return sections[filepath.Ext(name)] == nil })
	require.Len(t, units, 5)
	copies := t.TempDir()
	var paths []string
	for _, path := range units {
		name := filepath.Base(path)
		section, text := "", deployFile(t, name)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if inner, ok := strings.CutPrefix(line, "["); ok {
				section = strings.TrimSuffix(inner, "]")
				assert.Contains(t, sections[filepath.Ext(name)], section, name)
			} else if line != "" && line[0] != '#' {
				assert.NotEmpty(t, section, name)
				assert.Regexp(t, `^[A-Z][A-Za-z]+=\S.*$`, line, name)
			}
		}
		if service, ok := strings.CutSuffix(name, ".timer"); ok {
			assert.FileExists(t, deployed+service+".service")
		}
		// The programs may be elsewhere, or not here at all.
		text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAllString(text, "ExecStart=/bin/true")
		paths = append(paths, filepath.Join(copies, name))
		require.NoError(t, os.WriteFile(paths[len(paths)-1], []byte(text), 0o600))
	}
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		out, err := exec.Command("systemd-analyze", append([]string{"verify"}, paths...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Empty(t, string(out))
	}
}
