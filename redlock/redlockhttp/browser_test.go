package redlockhttp_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
	"github.com/seed6c881748/redlock/test/testkit"
)

// harness shows the page in frames of two widths, and says what it sees in them: a script that a
// frame must not have is a bar below it. It waits until the page has renewed itself.
const harness = `<!DOCTYPE html><body>
<iframe id="phone" src="/page/" style="width: 360px; height: 740px"></iframe>
<iframe id="desk" src="/page/" style="width: 1200px; height: 900px"></iframe>
<script>
onload = () => setTimeout(() => {
	for (const f of document.querySelectorAll("iframe")) {
		const d = f.contentDocument, root = d.documentElement, p = document.createElement("p");
		p.textContent = [f.id, root.scrollWidth - root.clientWidth, d.querySelectorAll("#nodes .card").length,
			d.querySelectorAll("#held .bar i").length, d.querySelectorAll("#waiting > div").length,
			d.querySelectorAll("#events > div").length > 2,
			[...d.querySelectorAll("#wrong > div")].every(e => e.querySelector(".name").textContent && e.querySelector(".next a").href.includes("/docs/")), d.scripts.length, d.title, d.getElementById("stale").hidden,
			getComputedStyle(d.body).backgroundColor].join(" | ");
		document.body.append(p);
	}
}, 2500);
</script>`

func TestPageInABrowser(t *testing.T) {
	chromium := testkit.Chromium(t)
	c := testcluster.RunEmbedded(t, 5)
	r, _ := busy(t, c)
	page := redlockhttp.Handler(r)
	looks := make(chan struct{}, 1000)
	url := serve(t, harness, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("format") == "json" {
			looks <- struct{}{}
		}
		page.ServeHTTP(w, req)
	}))
	for _, dark := range []bool{false, true} {
		dom, _ := chromium(t, dark, "--virtual-time-budget=6000", "--dump-dom", url)
		seen := map[string]string{}
		for _, m := range regexp.MustCompile(`<p>(\w+) \| (.*?)</p>`).FindAllStringSubmatch(dom, -1) {
			seen[m[1]] = html.UnescapeString(m[2])
		}
		ground := "rgb(245, 246, 248)"
		if dark {
			ground = "rgb(16, 20, 26)"
		}
		// No wider than the frame; five nodes; three locks with bars; two waits; events; what is wrong with its
		// next step and a link; the page's own script and no other; up to date.
		want := "0 | 5 | 3 | 2 | true | true | 1 | redlock: 4/5 up, 3 held | true | " + ground
		assert.Equal(t, map[string]string{"phone": want, "desk": want}, seen, dom)
	}
	assert.NotEmpty(t, looks, "the page renews itself")
}

// groups says what the rows are, of locks and of calls that wait.
const groups = `<!DOCTYPE html><body>
<iframe src="/page/" style="width: 390px; height: 740px"></iframe>
<script>
onload = () => setTimeout(() => {
	const d = document.querySelector("iframe").contentDocument, root = d.documentElement;
	const row = e => [...e.querySelectorAll(":scope > .top > span, :scope > .permit > .top > .name, :scope > .meta")].filter(s => s.className !== "left").map(s => s.textContent).join(" / ");
	d.querySelector("#held > button")?.click(); // It shows all rows.
	const p = document.createElement("p");
	p.textContent = [root.scrollWidth - root.clientWidth, d.getElementById("held-n").textContent, d.querySelectorAll("#held .permit .bar i").length,
		...[...d.querySelectorAll("#waiting > div, #held > div:first-child")].map(row), d.querySelectorAll("#held > div").length].join(" | ");
	document.body.append(p);
}, 2500);
</script>`

func TestPermitsOnThePage(t *testing.T) {
	r := permits(t, []string{"resize#x"}, []string{"mine#1"})
	assert.Regexp(t, `^0 \| 14 \| 10 \| api / for a permit, on 3 slots: 0, 1, 2 \| resize / 12 permits / (slot \d+ / ){10}2 more: filter by resize#… \| 3$`,
		look(t, groups, redlockhttp.Handler(r, redlockhttp.WithSemaphores("resize", "api"))))
	assert.Regexp(t, ` \| 14$`, look(t, groups, redlockhttp.Handler(r)))
}

// serve serves a harness, and the page for its frames.
func serve(t *testing.T, harness string, page http.Handler) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/page/", func(w http.ResponseWriter, req *http.Request) { page.ServeHTTP(framed{w}, req) })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(harness))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// look returns what a harness says of the page.
func look(t *testing.T, harness string, page http.Handler) string {
	t.Helper()
	dom, _ := testkit.Chromium(t)(t, false, "--virtual-time-budget=6000", "--dump-dom", serve(t, harness, page))
	seen := regexp.MustCompile(`<p>(.*)</p>`).FindStringSubmatch(dom)
	require.NotNil(t, seen, dom)
	return html.UnescapeString(seen[1])
}

// framed lets the page be shown in a frame of the test's.
type framed struct{ http.ResponseWriter }

func (f framed) WriteHeader(code int) {
	f.Header().Del("Content-Security-Policy")
	f.ResponseWriter.WriteHeader(code)
}

func (f framed) Write(b []byte) (int, error) {
	f.Header().Del("Content-Security-Policy")
	return f.ResponseWriter.Write(b)
}
