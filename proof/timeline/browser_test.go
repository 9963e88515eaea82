package timeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
)

// write makes a page, and returns its file.
func write(t *testing.T, events []history.Event, v judge.Verdict) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, timeline.Write(file, events, v))
	require.NoError(t, file.Close())
	return name
}

// place returns the middle of a thread that is drawn, in the window.
const place = `(() => {
	const T = window.timeline, box = document.getElementById("lanes").getBoundingClientRect();
	const i = T.S.threads.findIndex((t, i) => T.x(t[3]) - T.x(t[2]) > 12 && T.x(t[2]) > T.gutter() && T.x(t[3]) < box.width && T.S.holds.some(h => h[0] === i));
	const t = T.S.threads[i], p = T.place(t[0]);
	return [box.left + (T.x(t[2]) + T.x(t[3])) / 2, box.top + p.y + T.head + t[1] * T.row() + T.row() / 2, i];
})()`

const shown = `[timeline.view.t0, timeline.view.t1]`

// ink counts the colours of the lanes that many pixels have.
const ink = `(() => {
	const c = document.getElementById("lanes"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, n = {};
	for (let i = 0; i < d.length; i += 4) { const k = d[i] + "," + d[i + 1] + "," + d[i + 2]; n[k] = (n[k] || 0) + 1; }
	return Object.values(n).filter(x => x > 50).length;
})()`

func TestInABrowser(t *testing.T) {
	b := openBrowser(t)
	t.Run("use", func(t *testing.T) { testUse(t, b) })
	t.Run("narrow and dark", func(t *testing.T) { testNarrowAndDark(t, b) })
	t.Run("names are texts", func(t *testing.T) { testNamesAreTexts(t, b) })
	t.Run("many events", func(t *testing.T) { testManyEvents(t, b) })
}

func testUse(t *testing.T, b *browser) {
	t.Helper()
	p := b.open(t, write(t, sample(12*second), rules(2)), 1300, 900, false)
	var at [3]float64
	var all, now [2]float64
	var colors int
	p.eval(ink, &colors)
	require.Greater(t, colors, 10, "bars in the colours of resources, faults and votes are drawn")
	p.eval(shown, &all)
	p.eval(`document.getElementById("timeline").scrollIntoView()`, nil)

	t.Run("a violation's link goes there", func(t *testing.T) {
		p.eval(`document.querySelectorAll(".violations a")[1].click()`, nil)
		p.eval(shown, &now)
		require.Less(t, now[1]-now[0], all[1]/4)
		require.Less(t, now[0], 6.0e6)
		require.Greater(t, now[1], 6.04e6)
		require.Contains(t, p.text(`document.getElementById("panel").textContent`), "Violation 2: overlap")
		require.Contains(t, p.text(`document.getElementById("said").textContent`), "c1 and c3 both held")
	})
	t.Run("a click shows the votes", func(t *testing.T) {
		p.eval(place, &at)
		p.mouse("mouseMoved", at[0], at[1], nil)
		p.wait(`!document.getElementById("tip").hidden`)
		require.Contains(t, p.text(`document.getElementById("tip").textContent`), "held for")
		p.click(at[0], at[1])
		panel := p.text(`document.getElementById("panel").textContent`)
		require.Contains(t, panel, "Lock by c")
		require.Contains(t, panel, "node 4")
		require.Contains(t, panel, "Enters the critical section")
		require.Contains(t, panel, "until ")
		require.Equal(t, fmt.Sprint(at[2]), p.text("timeline.selected().selected"))
	})
	t.Run("keys zoom, pan and jump", func(t *testing.T) {
		length := func() float64 {
			p.eval(shown, &now)
			return now[1] - now[0]
		}
		was := length()
		p.press("+")
		require.InDelta(t, was/2, length(), 1)
		start := now[0]
		p.press("ArrowRight")
		require.InDelta(t, was/2, length(), 1)
		require.Greater(t, now[0], start)
		p.press("-")
		require.InDelta(t, was, length(), 1)
		p.press("0")
		require.InDelta(t, all[1], length(), 1)
		p.press("Escape")
		p.press("n")
		require.Contains(t, p.text(`document.getElementById("panel").textContent`), "kill -9")
		p.press("n")
		require.Contains(t, p.text(`document.getElementById("panel").textContent`), "Violation 1")
		p.press("p")
		p.press("j")
		require.NotEqual(t, "-1", p.text("timeline.selected().selected"))
		p.press("?")
		require.Equal(t, "true", p.text(`document.getElementById("help").open`))
		p.press("Escape")
		require.Equal(t, "false", p.text(`document.getElementById("help").open`))
	})
	t.Run("the wheel zooms and a drag pans", func(t *testing.T) {
		p.press("0")
		p.eval(`document.getElementById("lanes").scrollIntoView({block: "center"})`, nil)
		p.eval(place, &at)
		p.mouse("mouseWheel", at[0], at[1], params{"deltaX": 0, "deltaY": -300})
		p.wait(fmt.Sprintf("timeline.view.t1 - timeline.view.t0 < %f", all[1]*.7))
		p.eval(shown, &now)
		was := now
		p.mouse("mousePressed", at[0], at[1], params{"button": "left", "buttons": 1, "clickCount": 1})
		p.mouse("mouseMoved", at[0]-50, at[1], params{"button": "left", "buttons": 1})
		p.mouse("mouseReleased", at[0]-50, at[1], params{"button": "left", "clickCount": 1})
		p.wait(fmt.Sprintf("timeline.view.t0 > %f", was[0]))
		p.eval(shown, &now)
		require.InDelta(t, was[1]-was[0], now[1]-now[0], 1)
	})
	t.Run("one resource is shown alone", func(t *testing.T) {
		p.press("0")
		p.eval(ink, &colors)
		was := colors
		p.eval(`document.querySelector("#resources button").click()`, nil)
		p.eval(ink, &colors)
		require.Equal(t, "true", p.text(`document.querySelector("#resources button").getAttribute("aria-pressed")`))
		require.NotEqual(t, was, colors)
	})
	require.Empty(t, p.wrong(), "no requests, no errors")
}

func testNarrowAndDark(t *testing.T, b *browser) {
	t.Helper()
	page := write(t, sample(12*second), rules(0))
	p := b.open(t, page, 360, 740, true)
	require.Equal(t, "0", p.text("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
	require.Equal(t, "rgb(16, 20, 26)", p.text("getComputedStyle(document.body).backgroundColor"))
	var pixel []int
	p.eval(`[...document.getElementById("lanes").getContext("2d").getImageData(300, timeline.place(1).y + 3, 1, 1).data]`, &pixel)
	require.Less(t, pixel[0]+pixel[1]+pixel[2], 200, "the lanes are dark, too")
	require.Contains(t, p.text("document.querySelector('header').textContent"), "no promise was broken")
	require.Empty(t, p.wrong())
}

// A name of somebody else's is a text wherever it is shown, and the page runs nothing that is not its own.
func testNamesAreTexts(t *testing.T, b *browser) {
	t.Helper()
	const evil = `</script><img src=x onerror="document.title='evil'"><!--<script>`
	events := sample(3 * second)
	for i := range events {
		if len(events[i].Resources) > 0 {
			events[i].Resources = []string{evil}
		}
		events[i].Fault += evil
		events[i].Err += evil
	}
	node := 0
	events = append(events, history.Event{At: 4 * second, Kind: history.Keys, Node: &node, Keys: []string{evil}},
		history.Event{At: 4 * second, Kind: history.Up, Client: evil})
	v := rules(1)
	v.Violations[0].Sentence, v.Rules[0].Promise = evil, evil
	p := b.open(t, write(t, events, v), 1000, 800, false)
	p.press("j")
	p.press("n")
	p.eval(`document.querySelector(".violations a").click()`, nil)
	require.Equal(t, "redlock under faults: 1 violation of a promise, seed 7", p.text("document.title"))
	require.Equal(t, "0 2", p.text("document.images.length + ' ' + document.scripts.length"))
	require.Contains(t, p.text(`document.getElementById("panel").textContent`), evil)
	require.Empty(t, p.wrong())
}

// Five minutes of a busy run stay fluid, and a file that one can send.
func testManyEvents(t *testing.T, b *browser) {
	t.Helper()
	events := sample(500 * second)
	require.Greater(t, len(events), 100_000)
	page := write(t, events, rules(0))
	info, err := os.Stat(page)
	require.NoError(t, err)
	t.Logf("%d events are %d KiB", len(events), info.Size()>>10)
	require.Less(t, info.Size(), int64(10<<20))
	p := b.open(t, page, 1300, 900, false)
	for range 4 {
		p.press("+")
	}
	p.press("n")
	t.Log("ms to draw it whole, and a tenth: ", p.text(`[1, 10].map(part => {
		const T = window.timeline, start = performance.now();
		for (let i = 0; i < 5; i++) { T.show(0, T.S.end / part); T.draw(); }
		return Math.round((performance.now() - start) / 5);
	})`))
	require.Empty(t, p.wrong())
}

// Screenshots of a history are written with REDLOCK_SCREENSHOTS=folder and REDLOCK_HISTORY=file, to be looked at.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("REDLOCK_SCREENSHOTS")
	if folder == "" {
		t.Skip("REDLOCK_SCREENSHOTS names no folder")
	}
	events, verdict := sample(30*second), rules(2)
	if name := os.Getenv("REDLOCK_HISTORY"); name != "" {
		file, err := os.Open(name)
		require.NoError(t, err)
		events, err = history.Parse(file)
		require.NoError(t, err)
		verdict = judge.Judge(events)
	}
	b, page := openBrowser(t), write(t, events, verdict)
	for _, dark := range []bool{false, true} {
		for name, size := range map[string][2]int{"desk": {1400, 1000}, "phone": {390, 844}} {
			p := b.open(t, page, size[0], size[1], dark)
			shot := func(what string) {
				p.picture(filepath.Join(folder, fmt.Sprintf("%s-%s-%v.png", name, what, map[bool]string{false: "light", true: "dark"}[dark])))
			}
			shot("top")
			p.eval(`document.getElementById("timeline").scrollIntoView()`, nil)
			shot("whole")
			p.press("n")
			shot("next")
			p.press("+")
			p.press("j")
			shot("lock")
			p.eval(`document.getElementById("how").scrollIntoView()`, nil)
			shot("how")
			require.Empty(t, p.wrong())
		}
		// The picture of the README: work of a frozen client that its fence stops.
		p := b.open(t, page, 1060, 900, dark)
		p.eval(`(T => {
			const a = T.S.accesses.find(a => !a[7]) || T.S.accesses[0], t = T.S.threads[a[0]];
			T.select(a[0]);
			T.show(t[2] - 2e6, t[3] + 1e6);
		})(window.timeline)`, nil)
		p.crop("timeline", filepath.Join(folder, map[bool]string{false: "run-light.png", true: "run-dark.png"}[dark]))
	}
}
