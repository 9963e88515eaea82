package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"one two three four\n":              "one two\n    three\n    four\n",
		"  a bcd efgh ijk\n  x\n":           "  a bcd\n      efgh\n      ijk\n  x\n",
		"a-word-that-is-too-long b\n":       "a-word-that-is-too-long\n    b\n",
		"aaa \x1b[32mbbbb\x1b[0m ccc":       "aaa \x1b[32mbbbb\x1b[0m\n    ccc",
		"\u9501\u9501 \u9501\u9501\u9501\n": "\u9501\u9501\n    \u9501\u9501\u9501\n",
		"ten chars!\n":                      "ten chars!\n",
		"\n":                                "\n",
		"[y/N] ":                            "[y/N] ",
		"no end":                            "no end",
	} {
		assert.Equal(t, want, fold(text, 10, ""), "%q", text)
		assert.Equal(t, text, fold(text, 0, ""))
	}
}

func TestFit(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "     ",
		"abc":                      "abc  ",
		"abcde":                    "abcde",
		"abcdef":                   "abcd…",
		"\u9501\u9501":             "\u9501\u9501 ",
		"\u9501\u9501\u9501":       "\u9501\u9501…",
		"a\u9501\u9501\u9501":      "a\u9501… ",
		"e\u0301e\u0301e\u0301abc": "e\u0301e\u0301e\u0301a…",
	} {
		assert.Equal(t, want, fit(text, 5), "%q", text)
	}
}

// Where the answer goes to no terminal, the help suits any, and its examples can be pasted.
func TestHelpFitsEveryTerminal(t *testing.T) {
	for _, name := range []string{"", "run", "status", "list", "watch", "check", "admit", "acquire", "release", "break", "version", "man", "completion", "help"} {
		code, out, _ := execTool(t, nil, append(strings.Fields(name), "--help")...)
		require.Equal(t, exitOK, code)
		out, examples, _ := strings.Cut(out, "\nEXAMPLES\n")
		for line := range strings.Lines(out + examples) {
			if strings.Contains(examples, line) && !strings.HasPrefix(line, "    #") {
				continue // A command: broken, it would be another one.
			}
			assert.LessOrEqual(t, cells(strings.TrimSuffix(line, "\n")), 80, "%s: %s", name, line)
		}
	}
}
