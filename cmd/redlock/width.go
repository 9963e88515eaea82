package main

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// narrowest is the width below which a terminal itself has to break lines.
const narrowest = 40

// columns is the width of the terminal that w is; 0 if it is none, or does not say: then no line is to be broken.
func columns(w any) int {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 0
	}
	return max(width, narrowest)
}

// fold breaks the lines of a text that are longer than width, if that is not 0, between words. What was broken
// off is set in further than the line.
func fold(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " ")
		gap := line[:len(line)-len(body)] // before the next word
		further, at := gap+"    ", 0
		for word := range strings.SplitSeq(body, " ") {
			n := cells(strings.TrimSuffix(word, "\n"))
			if at > 0 && n > 0 && at+len(gap)+n > width {
				out.WriteString("\n")
				gap, at = further, 0
			}
			out.WriteString(gap + word)
			at += len(gap) + n
			gap = " "
		}
	}
	return out.String()
}

// cells is how many columns of a terminal a text takes. The sequences of a style take none.
func cells(text string) int {
	n, sequence := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			sequence = true
		case sequence:
			sequence = r != 'm'
		default:
			n += cellsOf(r)
		}
	}
	return n
}

// cellsOf is how many columns a character takes: two in the scripts of East Asia and for pictures.
func cellsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	default:
		return 1
	}
}

// fit is a text in so many columns: filled up with spaces, or cut.
func fit(text string, width int) string {
	if n := cells(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	at := 0
	for i, r := range text {
		if at+cellsOf(r) > width-1 {
			return text[:i] + "…" + strings.Repeat(" ", width-1-at)
		}
		at += cellsOf(r)
	}
	return text
}
