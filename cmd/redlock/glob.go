package main

import "strings"

// checkGlob reports a pattern of which nobody can mean what a server makes of it: it takes what is not closed
// for closed at the end, and matches less than was meant, or nothing. It reads a pattern as a server does.
func checkGlob(pattern string) error {
	if pattern == "" {
		return usagef("empty PATTERN, which matches nothing: without one, list lists all locks")
	}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; i == len(pattern) {
				return usagef(`PATTERN %q ends with a backslash: want the character behind it, or \\ for a backslash`, pattern)
			}
		case '[':
			n := classLen(pattern[i:])
			switch n {
			case 0:
				return usagef(`PATTERN %q: the [ at byte %d is not closed by a ]: want one, or \[ for the character`, pattern, i+1)
			case len("[]"):
				return usagef(`PATTERN %q: the [] at byte %d matches nothing: want characters in it, or \[\] for these two`, pattern, i+1)
			}
			i += n - 1
		}
	}
	return nil
}

// classLen is the length of the class of characters with which a pattern begins, 0 if it is not closed. The ] is
// none where it is the end of a range, as in [a-].
func classLen(pattern string) int {
	i := len("[")
	if strings.HasPrefix(pattern, "[^") {
		i = len("[^")
	}
	for i < len(pattern) {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i += 2
		case pattern[i] == ']':
			return i + 1
		case i+2 < len(pattern) && pattern[i+1] == '-':
			i += 3
		default:
			i++
		}
	}
	return 0
}

// escapeGlob takes the meaning from what has one in a pattern.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}
