//go:build desktop

package frontend

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Dist is the built page, index.html at its top.
func Dist() (fs.FS, error) { return fs.Sub(dist, "dist") }
