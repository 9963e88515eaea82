// Package pages has the shared parts of the pages that draw lanes: the playground's and a chaos run's.
package pages

import "embed"

// Files are common.css, with the colours and the plainest elements, and common.js, which draws.
//
//go:embed common.css common.js
var Files embed.FS
