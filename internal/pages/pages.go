// Package pages has what the pages that draw lanes have in common: those of the playground and of a chaos run.
package pages

import "embed"

// Files are common.css, the colours and the plainest elements, and common.js, the means of drawing.
//
//go:embed common.css common.js
var Files embed.FS
