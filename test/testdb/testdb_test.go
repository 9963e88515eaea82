package testdb

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The servers themselves are tried by those who use them, in modules that have drivers.

// recorder is a TB that only notes what happened.
type recorder struct{ skipped, failed bool }

func (*recorder) Helper()                 {}
func (*recorder) Cleanup(func())          {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; runtime.Goexit() }

func database(s *server) recorder {
	got := recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.database(&got, "none")
	}()
	<-done
	return got
}

func TestAServerThatIsNotInstalled(t *testing.T) {
	t.Setenv("CI", "")
	require.Equal(t, recorder{failed: true}, database(&server{}), "nobody would end it")
	mayStart = true
	defer func() { mayStart = false }()
	none := func() *server { return &server{kind: kind{program: "no-such-server"}} }
	require.Equal(t, recorder{skipped: true}, database(none()))
	t.Setenv("CI", "true")
	require.Equal(t, recorder{failed: true}, database(none()))
}

func TestAProgramBesideThePath(t *testing.T) {
	t.Setenv("PATH", "")
	s := &server{kind: kind{folders: []string{"testdata", "."}}}
	found, err := s.find("kinds.go")
	require.NoError(t, err)
	require.Equal(t, "kinds.go", found)
	_, err = s.find("none.go")
	require.ErrorIs(t, err, errNotInstalled)
}
