package tables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Place is where a document keeps what a command writes: between two marks, which are not seen where it is shown.
//
//	<!-- bench:latency -->
//	<!-- /bench -->
type Place struct{ Kind, Name string }

func (p Place) begin() string { return "<!-- " + p.Kind + ":" + p.Name + " -->" }
func (p Place) end() string   { return "<!-- /" + p.Kind + " -->" }

// Places are all of that kind in a document, in their order.
func Places(document, kind string) (all []Place) {
	for _, m := range regexp.MustCompile(`<!-- `+regexp.QuoteMeta(kind)+`:(.+?) -->`).FindAllStringSubmatch(document, -1) {
		all = append(all, Place{kind, m[1]})
	}
	return all
}

// Fill returns the document with that content in the place, instead of what was there.
func (p Place) Fill(document, content string) (string, error) {
	before, rest, found := strings.Cut(document, p.begin()+"\n")
	switch {
	case !found:
		return "", fmt.Errorf("no line %q", p.begin())
	case strings.Contains(rest, p.begin()):
		return "", fmt.Errorf("two lines %q", p.begin())
	}
	old, after, found := strings.Cut(rest, p.end())
	if !found || len(Places(old, p.Kind)) > 0 {
		return "", fmt.Errorf("no line %q ends %q", p.end(), p.begin())
	}
	return before + p.begin() + "\n\n" + strings.TrimSpace(content) + "\n\n" + p.end() + after, nil
}

// Replace writes a file as a whole or not at all.
func Replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// textWidth is the length of the lines in documents.
const textWidth = 120

// Wrap breaks a text into lines of 120 characters at most.
func Wrap(text string) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
		case length+1+n > textWidth:
			b.WriteString("\n")
			length = 0
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += n
	}
	return b.String()
}
