// Package pages has what a page that draws lanes needs, as the playground's does.
package pages

import "embed"

// Files are common.css, with the colours and the plainest elements, and common.js, which draws.
//
//go:embed common.css common.js
var Files embed.FS
