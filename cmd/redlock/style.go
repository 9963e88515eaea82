package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A style colours text, or leaves it as it is.
type style struct{ on bool }

// styleFor returns the style for what is written to w.
func (t *tool) styleFor(w io.Writer) style {
	switch t.global.color {
	case "always":
		return style{true}
	case "never":
		return style{false}
	}
	// https://no-color.org: any value but an empty one.
	return style{isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s style) bold(text string) string   { return s.sequence("1", text) }
func (s style) dim(text string) string    { return s.sequence("2", text) }
func (s style) red(text string) string    { return s.sequence("31", text) }
func (s style) green(text string) string  { return s.sequence("32", text) }
func (s style) yellow(text string) string { return s.sequence("33", text) }

func (s style) sequence(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
