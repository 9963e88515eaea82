package timeline_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// A browser is Chromium without a window, which does what the tests tell it over pipes.
type browser struct {
	send    io.Writer
	mu      sync.Mutex
	last    int
	answers map[int]chan answer
	heard   []event
	wake    *sync.Cond
	broken  error
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	event
}

type event struct {
	Method  string          `json:"method"`
	Session string          `json:"sessionId"`
	Params  json.RawMessage `json:"params"`
}

// openBrowser starts Chromium, or ends the test where there is none.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := testkit.Chromium(t)
	commands, send, err := os.Pipe()
	require.NoError(t, err)
	receive, answers, err := os.Pipe()
	require.NoError(t, err)
	// Its last processes may still write when it has answered that it ends.
	profile, err := os.MkdirTemp("", "chromium") //nolint:usetesting // t.TempDir fails then.
	require.NoError(t, err)
	// It is told to end: killed, it would leave files behind.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{commands, answers} // Its 3 and 4.
	require.NoError(t, cmd.Start())
	_, _ = commands.Close(), answers.Close()
	b := &browser{send: send, answers: map[int]chan answer{}}
	b.wake = sync.NewCond(&b.mu)
	done := make(chan struct{})
	go b.read(receive, done)
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil)
		<-done // It closes its end when it ends.
		_, _, _, _ = cmd.Wait(), send.Close(), receive.Close(), os.RemoveAll(profile)
	})
	return b
}

func (b *browser) read(from io.Reader, done chan struct{}) {
	defer close(done)
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.broken = err
			for _, c := range b.answers {
				close(c)
			}
			b.answers = nil
			b.wake.Broadcast()
			b.mu.Unlock()
			return
		}
		var a answer
		if json.Unmarshal(text[:len(text)-1], &a) == nil {
			if c := b.answers[a.ID]; a.ID != 0 && c != nil {
				delete(b.answers, a.ID)
				c <- a
			} else {
				b.heard = append(b.heard, a.event)
				b.wake.Broadcast()
			}
		}
		b.mu.Unlock()
	}
}

func (b *browser) call(session, method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return nil, b.broken
	}
	b.last++
	c := make(chan answer, 1)
	b.answers[b.last] = c
	m := map[string]any{"id": b.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.send.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a, ok := <-c
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: the browser has ended", method)
	case a.Error != nil:
		return nil, fmt.Errorf("%s: %s", method, a.Error.Message)
	}
	return a.Result, nil
}

// A tab shows a page.
type tab struct {
	t       *testing.T
	b       *browser
	session string
}

type params map[string]any

// open shows a file in a window of a size, in the light or dark.
func (b *browser) open(t *testing.T, file string, width, height int, dark bool) *tab {
	t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	p := &tab{t: t, b: b}
	p.do("Target.createTarget", params{"url": "about:blank"}, &target)
	p.do("Target.attachToTarget", params{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(domain+".enable", nil, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do("Emulation.setEmulatedMedia", params{"features": []params{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
	p.do("Emulation.setScrollbarsHidden", params{"hidden": true}, nil)
	p.do("Emulation.setDeviceMetricsOverride", params{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.do("Page.navigate", params{"url": "file://" + file}, nil)
	p.until("Page.loadEventFired")
	return p
}

func (p *tab) do(method string, arguments, result any) {
	p.t.Helper()
	raw, err := p.b.call(p.session, method, arguments)
	require.NoError(p.t, err)
	if result != nil {
		require.NoError(p.t, json.Unmarshal(raw, result))
	}
}

// until waits for an event of the tab.
func (p *tab) until(method string) {
	p.t.Helper()
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	for p.b.broken == nil {
		for _, e := range p.b.heard {
			if e.Session == p.session && e.Method == method {
				return
			}
		}
		p.b.wake.Wait()
	}
	require.NoError(p.t, p.b.broken)
}

// wrong is what the page asked of a network, and what it complained of.
func (p *tab) wrong() []string {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	var all []string
	for _, e := range p.b.heard {
		if e.Session != p.session {
			continue
		}
		text := string(e.Params)
		switch e.Method {
		case "Network.requestWillBeSent":
			var sent struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
			}
			_ = json.Unmarshal(e.Params, &sent)
			if !strings.HasPrefix(sent.Request.URL, "file://") && !strings.HasPrefix(sent.Request.URL, "data:") {
				all = append(all, text)
			}
		case "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			all = append(all, text)
		case "Log.entryAdded":
			if strings.Contains(text, `"level":"error"`) {
				all = append(all, text)
			}
		}
	}
	return all
}

// eval returns what an expression is in the page, after the next frame has been drawn.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.do("Runtime.evaluate", params{
		"expression":    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => (" + expression + "))",
		"returnByValue": true, "awaitPromise": true,
	}, &out)
	if out.Exception != nil {
		p.t.Fatal(expression, ": ", out.Exception.Exception.Description)
	}
	if result != nil {
		require.NoError(p.t, json.Unmarshal(out.Result.Value, result), expression)
	}
}

// wait is for what follows from input, which a page may get later than its tester.
func (p *tab) wait(condition string) {
	p.t.Helper()
	for p.text(condition) != "true" {
		require.NoError(p.t, p.t.Context().Err(), condition)
	}
}

func (p *tab) text(expression string) string {
	p.t.Helper()
	var s string
	p.eval("String("+expression+")", &s)
	return s
}

// press presses a key, as it is named in events of the keyboard.
func (p *tab) press(key string) {
	p.t.Helper()
	down := params{"type": "keyDown", "key": key}
	if key == "Escape" {
		down["windowsVirtualKeyCode"] = 27 // Dialogs want the number.
	}
	if len(key) == 1 {
		down["text"] = key
	}
	p.do("Input.dispatchKeyEvent", down, nil)
	p.do("Input.dispatchKeyEvent", params{"type": "keyUp", "key": key}, nil)
}

func (p *tab) mouse(kind string, x, y float64, more params) {
	p.t.Helper()
	m := params{"type": kind, "x": x, "y": y}
	for k, v := range more {
		m[k] = v
	}
	p.do("Input.dispatchMouseEvent", m, nil)
}

func (p *tab) click(x, y float64) {
	p.t.Helper()
	left := params{"button": "left", "buttons": 1, "clickCount": 1}
	p.mouse("mousePressed", x, y, left)
	p.mouse("mouseReleased", x, y, left)
}

// crop writes one element to a file.
func (p *tab) crop(id, file string) {
	p.t.Helper()
	var box [4]float64
	p.eval(fmt.Sprintf(`(b => [b.x + scrollX, b.y + scrollY, b.width, b.height])(document.getElementById(%q).getBoundingClientRect())`, id), &box)
	p.shoot(file, params{"format": "png", "captureBeyondViewport": true, "clip": params{"x": box[0], "y": box[1], "width": box[2], "height": box[3], "scale": 1}})
}

// picture writes what is in the window to a file.
func (p *tab) picture(file string) {
	p.t.Helper()
	p.shoot(file, params{"format": "png"})
}

func (p *tab) shoot(file string, how params) {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	p.eval("1", nil)
	p.do("Page.captureScreenshot", how, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(file, data, 0o644))
}
