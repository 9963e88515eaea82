// Command pictures draws the picture of the README: five nodes, their votes, and how long a
// lock lasts. It writes an SVG for light and for dark pages, in English and in Chinese:
//
//	go run ./docs/pictures docs/pictures
package main

import (
	_ "embed"
	"log"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// drawing is the picture, with names for its colours, fonts and texts.
//
//go:embed lock.svg.tmpl
var drawing string

// palettes are readable on white and on the dark grey of GitHub, which the pictures leave as it is.
var palettes = map[string]map[string]string{
	"light": {
		"ink": "#1f2328", "faint": "#59636e", "line": "#818b98", "box": "#f6f8fa", "good": "#1a7f37",
		"goodBox": "#dafbe1", "bad": "#cf222e", "wait": "#9a6700", "driftBox": "#fff8c5",
	},
	"dark": {
		"ink": "#f0f6fc", "faint": "#9198a1", "line": "#656c76", "box": "#151b23", "good": "#3fb950",
		"goodBox": "#12361f", "bad": "#f85149", "wait": "#d29922", "driftBox": "#3b2f0c",
	},
}

// languages are the texts, by what the names of the files have.
var languages = map[string]map[string]string{
	"": {
		"title":    "Three of five nodes grant a lock, which lasts until Until",
		"process":  "your process",
		"node":     "Redis",
		"yes":      "yes",
		"slow":     "slow: not waited for",
		"down":     "down: not needed",
		"quorum":   "3 of 5: a quorum",
		"held":     "the lock is held",
		"start":    "start",
		"got":      "quorum: work begins",
		"bar":      "held: nobody else can get it",
		"extended": "Do extends the lock, and Until moves on",
		"drift":    "drift",
		"until":    "the context has ended by then",
		"end":      "keys expire",
	},
	"zh-": {
		"title":    "五个节点中有三个授予锁，锁的有效期到 Until 为止",
		"process":  "你的进程",
		"node":     "Redis",
		"yes":      "同意",
		"slow":     "太慢：不等它",
		"down":     "宕机：不需要它",
		"quorum":   "3 票即多数派",
		"held":     "你拿到了锁",
		"start":    "开始",
		"got":      "多数派：开始工作",
		"bar":      "持有：别人拿不到",
		"extended": "Do 自动续期，Until 随之后移",
		"drift":    "漂移",
		"until":    "此前 context 必已结束",
		"end":      "key 过期",
	},
}

var fonts = map[string]string{
	"sans": "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', " +
		"'Microsoft YaHei', Helvetica, Arial, sans-serif",
	"mono": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace",
}

// pictures are all of them, by the names of their files.
func pictures() (map[string]string, error) {
	t, err := template.New("lock").Option("missingkey=error").Parse(drawing)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for language, words := range languages {
		for page, palette := range palettes {
			names := maps.Clone(fonts)
			maps.Copy(names, words)
			maps.Copy(names, palette)
			var svg strings.Builder
			if err = t.Execute(&svg, names); err != nil {
				return nil, err
			}
			all["lock-"+language+page+".svg"] = svg.String()
		}
	}
	return all, nil
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./docs/pictures FOLDER")
	}
	all, err := pictures()
	if err != nil {
		log.Fatal(err)
	}
	for name, svg := range all {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(svg), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
