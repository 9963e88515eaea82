package child

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be a child that repeats what it is told, until it is told to fail.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "repeat" {
		os.Exit(m.Run())
	}
	var line string
	for {
		if _, err := fmt.Scanln(&line); err != nil {
			return
		}
		fmt.Println(line)
		if line == "fail" {
			os.Exit(3)
		}
	}
}

func TestChildTalksUntilItsInputEnds(t *testing.T) {
	p, err := Start(Self("repeat"))
	require.NoError(t, err)
	long := strings.Repeat("x", 1<<17)
	require.NoError(t, p.Say(long))
	line, err := p.Line()
	require.NoError(t, err)
	require.Equal(t, long, line)
	require.NoError(t, p.Say(map[string]int{"a": 1}))
	line, err = p.Line()
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, line)
	require.NoError(t, p.Close())
	_, err = p.Line()
	require.ErrorIs(t, err, io.EOF)
}

func TestChildThatFailsOrIsKilledHasEnded(t *testing.T) {
	p, err := Start(Self("repeat"))
	require.NoError(t, err)
	require.NoError(t, p.Say("fail"))
	require.Error(t, p.Wait())
	p, err = Start(Self("repeat"))
	require.NoError(t, err)
	p.Kill()
	<-p.Gone
	_, err = Start(Self("repeat"))
	require.NoError(t, err) // It ends with this process.
}
