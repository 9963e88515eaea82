//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
)

// childEnv makes this program a writer of the file that it names.
const childEnv = "FILESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child appends each of its fences to the file, if it is let.
func child(path string, fences []string) error {
	for _, s := range fences {
		fence, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		err = update(path, fence, func(old []byte) []byte { return append(old, s+"\n"...) })
		if err != nil && !errors.Is(err, ErrStale) {
			return err
		}
	}
	return nil
}

func TestRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	fencetest.Run(t, func(t *testing.T) fencetest.Store {
		path := filepath.Join(t.TempDir(), "file")
		return fencetest.Store{
			Write: func(fence int64, value string) error { return Write(path, fence, []byte(value)) },
			Read: func(fence int64) (string, error) {
				value, err := Read(path, fence)
				return string(value), err
			},
			Stored: func() (string, int64, error) {
				fence, value, err := load(path)
				return string(value), fence, err
			},
			Stale: ErrStale,
		}
	})
}

// TestProcesses has several processes write one file. Each of them is new, so that the
// fence can only be in the file. The value is the list of all accepted fences.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const processes, writes = 4, 25
	path := filepath.Join(t.TempDir(), "file")
	children := make([]*exec.Cmd, processes)
	largest, output := int64(0), make([]strings.Builder, processes)
	for i := range children {
		rng := rand.New(rand.NewPCG(4, uint64(i)))
		var fences []string
		for n := range int64(writes) {
			fence := 1 + 10*n + rng.Int64N(100)
			largest = max(largest, fence)
			fences = append(fences, strconv.FormatInt(fence, 10))
		}
		children[i] = command(t, path, fences...)
		children[i].Stderr = &output[i]
		require.NoError(t, children[i].Start())
	}
	for i, c := range children {
		require.NoError(t, c.Wait(), "%s", &output[i])
	}

	fence, value, err := load(path)
	require.NoError(t, err)
	require.Equal(t, largest, fence)
	accepted := numbers(t, value)
	require.Less(t, len(accepted), processes*writes, "none was refused")
	require.True(t, slices.IsSorted(accepted), "%v", accepted)
	require.Equal(t, largest, accepted[len(accepted)-1])
}

// TestRestart has a new process refuse what an earlier process would have refused.
func TestRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, command(t, path, "7").Run())
	require.NoError(t, command(t, path, "6", "7").Run())
	fence, value, err := load(path)
	require.NoError(t, err)
	require.EqualValues(t, 7, fence)
	require.Equal(t, []int64{7, 7}, numbers(t, value))
}

func command(t *testing.T, path string, fences ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self, fences...)
	c.Env = append(os.Environ(), childEnv+"="+path)
	return c
}

func numbers(t *testing.T, value []byte) (list []int64) {
	t.Helper()
	for s := range strings.Lines(string(value)) {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		require.NoError(t, err)
		list = append(list, n)
	}
	return list
}

func TestValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	value, err := Read(path, 5)
	require.NoError(t, err)
	require.Empty(t, value)
	require.ErrorIs(t, Write(path, 4, []byte("x")), ErrStale, "a file that was only read has a fence, too")
	for _, want := range []string{"", "\n", "1\n2\n", "a\x00b"} {
		require.NoError(t, Write(path, 5, []byte(want)))
		value, err = Read(path, 5)
		require.NoError(t, err)
		require.Equal(t, want, string(value))
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "5", "x\nvalue", "\nvalue", "0\nvalue", "-1\nvalue", "5 \nvalue"} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		err := Write(path, 9, []byte("new"))
		require.ErrorContains(t, err, "no fence", "%q", content)
		require.NotErrorIs(t, err, ErrStale)
		_, err = Read(path, 9)
		require.Error(t, err)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(left))
	}
	require.ErrorIs(t, Write(filepath.Join(t.TempDir(), "none", "file"), 1, nil), os.ErrNotExist)
}

// TestCrash has what a process leaves that dies while it writes.
func TestCrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, Write(path, 5, []byte("old")))
	require.NoError(t, os.WriteFile(path+".tmp", []byte("6\nhalf of a very long va"), 0o600))
	value, err := Read(path, 5)
	require.NoError(t, err)
	require.Equal(t, "old", string(value))
	require.NoError(t, Write(path, 6, []byte("new")))
	value, err = Read(path, 6)
	require.NoError(t, err)
	require.Equal(t, "new", string(value))
}
