// Command pictures draws the picture of the README: five nodes, their votes, and how long a
// lock lasts. It writes an SVG for light and for dark pages, in English and in Chinese:
//
//	go run ./docs/pictures docs/pictures
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

// A palette has the colours of a picture.
type palette struct {
	text, faint, line, box, good, goodBox, bad, wait, drift string
}

// Both are readable on white and on the dark grey of GitHub, which the pictures leave as it is.
var (
	light = palette{
		text: "#1f2328", faint: "#59636e", line: "#818b98", box: "#f6f8fa",
		good: "#1a7f37", goodBox: "#dafbe1", bad: "#cf222e", wait: "#9a6700", drift: "#fff8c5",
	}
	dark = palette{
		text: "#f0f6fc", faint: "#9198a1", line: "#656c76", box: "#151b23",
		good: "#3fb950", goodBox: "#12361f", bad: "#f85149", wait: "#d29922", drift: "#3b2f0c",
	}
)

// words are the texts of a picture in one language.
type words struct {
	title, process, node             string
	yes, slow, down                  string
	quorum, held, start, got         string
	bar, extended, drift, until, end string
}

var english = words{
	title:    "Three of five nodes grant a lock, which lasts until Until",
	process:  "your process",
	node:     "Redis",
	yes:      "yes",
	slow:     "slow: not waited for",
	down:     "down: not needed",
	quorum:   "3 of 5: a quorum",
	held:     "the lock is held",
	start:    "start",
	got:      "quorum: work begins",
	bar:      "held: nobody else can get it",
	extended: "Do extends the lock, and Until moves on",
	drift:    "drift",
	until:    "the context has ended by then",
	end:      "keys expire",
}

var chinese = words{
	title:    "五个节点中有三个授予锁，锁的有效期到 Until 为止",
	process:  "你的进程",
	node:     "Redis",
	yes:      "同意",
	slow:     "太慢：不等它",
	down:     "宕机：不需要它",
	quorum:   "3 票即多数派",
	held:     "你拿到了锁",
	start:    "开始",
	got:      "多数派：开始工作",
	bar:      "持有：别人拿不到",
	extended: "Do 自动续期，Until 随之后移",
	drift:    "漂移",
	until:    "此前 context 必已结束",
	end:      "key 过期",
}

// On a phone a picture is 358 pixels wide: it is not much wider than that, so that its texts can be read there.
const (
	width, height = 560, 396
	textSize      = 16
	sans          = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', " +
		"'Microsoft YaHei', Helvetica, Arial, sans-serif"
	mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
)

// A label is a text and where it stands.
type label struct {
	x, y   float64 // y of the baseline
	size   float64
	anchor string // start, middle or end
	font   string
	color  string
	bold   bool
	text   string
}

// A picture is made of shapes, behind, and labels.
type picture struct {
	palette
	title  string
	shapes []string
	labels []label
}

func (p *picture) shape(format string, args ...any) {
	p.shapes = append(p.shapes, fmt.Sprintf(format, args...))
}

func (p *picture) say(x, y, size float64, anchor, color, text string) *label {
	p.labels = append(p.labels, label{x: x, y: y, size: size, anchor: anchor, font: sans, color: color, text: text})
	return &p.labels[len(p.labels)-1]
}

func (p *picture) line(x1, y1, x2, y2 float64, color, more string) {
	p.shape(`<path d="M%g %gL%g %g" stroke="%s" %s/>`, x1, y1, x2, y2, color, more)
}

func (p *picture) rect(x, y, w, h, radius float64, fill, stroke, more string) {
	p.shape(`<rect x="%g" y="%g" width="%g" height="%g" rx="%g" fill="%s" stroke="%s" %s/>`,
		x, y, w, h, radius, fill, stroke, more)
}

// draw makes the picture of one language and one palette.
func draw(w words, c palette) *picture {
	p := &picture{palette: c, title: w.title}
	p.votes(w)
	p.timeline(w)
	return p
}

// votes draws the process, the nodes and what they answer.
func (p *picture) votes(w words) {
	const (
		nodeX, nodeY, step = 232.0, 12.0, 46.0
		nodeW, nodeH       = 86.0, 36.0
		markX              = nodeX + nodeW + 20
		boxX, boxW         = 8.0, 186.0
	)
	boxY := nodeY + 2*step + nodeH/2 - 42
	p.rect(boxX, boxY, boxW, 84, 10, p.box, p.palette.line, `stroke-width="1.5"`)
	p.say(boxX+boxW/2, boxY+34, 17, "middle", p.text, w.process).bold = true
	p.say(boxX+boxW/2, boxY+62, 15, "middle", p.text, "r.Do(ctx, …, work)").font = mono
	for i := range 5 {
		y := nodeY + float64(i)*step
		mid := y + nodeH/2
		color, more, vote := p.good, `stroke-width="2"`, w.yes
		switch i {
		case 3:
			color, more, vote = p.wait, `stroke-width="2" stroke-dasharray="7 5"`, w.slow
		case 4:
			color, more, vote = p.bad, `stroke-width="2" stroke-dasharray="2 5"`, w.down
		}
		p.line(boxX+boxW, boxY+42, nodeX, mid, color, more)
		p.rect(nodeX, y, nodeW, nodeH, 7, p.box, color, `stroke-width="1.5"`)
		p.say(nodeX+nodeW/2, mid+5, textSize, "middle", p.text, fmt.Sprint(w.node, " ", i+1))
		p.mark(i, markX, mid, color)
		p.say(markX+16, mid+5, textSize, "start", color, vote)
	}
	// The bracket around the votes that make the quorum.
	x, top, bottom := 386.0, nodeY+4, nodeY+2*step+nodeH-4
	p.shape(`<path d="M%g %gh10v%gh-10" stroke="%s" stroke-width="2" fill="none"/>`, x, top, bottom-top, p.good)
	p.say(x+18, (top+bottom)/2-4, textSize, "start", p.text, w.quorum)
	p.say(x+18, (top+bottom)/2+20, textSize, "start", p.good, w.held).bold = true
}

// mark draws a tick, a clock or a cross. Fonts need not have them.
func (p *picture) mark(i int, x, y float64, color string) {
	switch i {
	case 3:
		p.shape(`<circle cx="%g" cy="%g" r="8" stroke="%s" stroke-width="2" fill="none"/>`, x, y, color)
		p.shape(`<path d="M%g %gv5h4" stroke="%s" stroke-width="2" fill="none"/>`, x, y-5, color)
	case 4:
		p.shape(`<path d="M%g %gl12 12m0 -12l-12 12" stroke="%s" stroke-width="2.5" fill="none"/>`, x-6, y-6, color)
	default:
		p.shape(`<path d="M%g %gl5 6l9 -12" stroke="%s" stroke-width="2.5" fill="none"/>`, x-7, y, color)
	}
}

// timeline draws how long the lock lasts.
func (p *picture) timeline(w words) {
	const (
		start, got, until, end = 26.0, 64.0, 380.0, 450.0
		top, bottom, axis      = 300.0, 330.0, 340.0
	)
	p.rect(got, top, until-got, bottom-top, 3, p.goodBox, p.good, `stroke-width="1.5"`)
	p.rect(until, top, end-until, bottom-top, 3, p.drift, p.wait, `stroke-width="1.5" stroke-dasharray="4 4"`)
	p.line(8, axis, width-16, axis, p.palette.line, `stroke-width="1.5"`)
	p.shape(`<path d="M%d %gl-9 -5v10z" fill="%s"/>`, width-6, axis, p.palette.line)
	for _, x := range []float64{start, got, until, end} {
		p.line(x, axis-6, x, axis+6, p.palette.line, `stroke-width="1.5"`)
	}
	p.say((got+until)/2, top+21, textSize, "middle", p.text, w.bar)
	p.say((until+end)/2, top+21, textSize, "middle", p.faint, w.drift)
	p.say(start, axis+25, textSize, "middle", p.faint, w.start)
	p.say(got, axis+25, textSize, "start", p.faint, w.got)
	lock := p.say(until, axis+25, textSize, "middle", p.text, "lock.Until()")
	lock.font, lock.bold = mono, true
	p.say(end-6, axis+47, textSize, "end", p.faint, w.until)
	p.say(end+4, axis+25, 15, "start", p.faint, "start + ttl").font = mono
	p.say(end+4, axis+47, textSize, "start", p.faint, w.end)
	// An extension, at a third.
	at := got + (until-got)/3
	p.shape(`<path d="M%g %gv-12h%g" stroke="%s" stroke-width="1.5" fill="none"/>`, at, top-4, until+50-at, p.good)
	p.shape(`<path d="M%g %gl-9 -5v10z" fill="%s"/>`, until+60, top-16, p.good)
	p.say(at, top-24, textSize, "start", p.good, w.extended)
}

// svg writes the picture down.
func (p *picture) svg() string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&s, "<title>%s</title>\n", p.title)
	for _, shape := range p.shapes {
		s.WriteString(shape + "\n")
	}
	for _, l := range p.labels {
		weight := ""
		if l.bold {
			weight = ` font-weight="600"`
		}
		fmt.Fprintf(&s, `<text x="%g" y="%g" font-family="%s" font-size="%g"%s text-anchor="%s" fill="%s">%s</text>`+"\n",
			l.x, l.y, l.font, l.size, weight, l.anchor, l.color, l.text)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// pictures are all of them, by the names of their files.
func pictures() map[string]*picture {
	return map[string]*picture{
		"lock-light.svg":    draw(english, light),
		"lock-dark.svg":     draw(english, dark),
		"lock-zh-light.svg": draw(chinese, light),
		"lock-zh-dark.svg":  draw(chinese, dark),
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./docs/pictures FOLDER")
	}
	for name, p := range pictures() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(p.svg()), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
