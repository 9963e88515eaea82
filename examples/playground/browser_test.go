package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// harness presses the page's buttons.
//
//go:embed testdata/harness.html
var harness []byte

func TestPageInABrowser(t *testing.T) {
	chromium := testkit.Chromium(t)
	p, err := open(t.Context(), settings{ttl: time.Minute, pause: 100 * time.Millisecond})
	require.NoError(t, err)
	defer p.close()
	harness := testkit.NewHarness(t, p.handler(), harness, make(chan struct{}))
	_, console := chromium(t, false, "--window-size=1200,900", "--dump-dom", harness.URL+"?play")
	assert.Equal(t, []string{
		"5 nodes, 4 clients, 4 stories", "buttons as large as a finger", "Client A has the lock", "5 keys", "votes of 5 nodes", "Three of five answer",
		"Only two of five answer", "Client B gets no lock", "restarted", "Client C has the lock", "Client B must wait", "suspended", "goes on", "Client B has the lock",
		"no wider than a phone", "buttons as large as a finger there", "story told", "from its first step on", "story stopped",
	}, harness.Seen())
	assert.Empty(t, console)
}

// Pictures to look at are written with PLAYGROUND_PICTURES=folder.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PLAYGROUND_PICTURES")
	if folder == "" {
		t.Skip("PLAYGROUND_PICTURES names no folder")
	}
	chromium := testkit.Chromium(t)
	for name, size := range map[string]string{"desk": "1280,1500", "phone": "500,2300"} {
		for tale, moment := range map[string]string{"suspended": "write is refused", "forgotten": "Two clients have the lock!"} {
			p, err := open(t.Context(), settings{ttl: 8 * time.Second, pause: 2 * time.Second})
			require.NoError(t, err)
			require.NoError(t, p.do("story "+tale))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for v, changed := p.look(); !strings.Contains(v.Log[len(v.Log)-1].Text, moment); v, changed = p.look() {
					<-changed
				}
				time.Sleep(time.Second)
			}()
			harness := testkit.NewHarness(t, p.handler(), harness, done)
			file := filepath.Join(folder, fmt.Sprintf("playground-%s-%s.png", tale, name))
			dark := (tale == "suspended") == (name == "phone")
			chromium(t, dark, "--hide-scrollbars", "--window-size="+size, "--screenshot="+file, harness.URL)
			p.close()
		}
	}
}
