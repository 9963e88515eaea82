package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/seed6c881748/redlock/bench/plot"
)

// draw writes a plot of each figure over the time, for light and dark pages.
func draw(folder string, samples []sample) error {
	for _, f := range figures {
		line := plot.Line{Name: strings.ReplaceAll(f.name, "-", " ")}
		for _, s := range samples {
			if v := f.of(s); v > 0 {
				line.X, line.Y = append(line.X, s.At.Minutes()), append(line.Y, v)
			}
		}
		label := line.Name
		if f.unit != "" {
			label += " (" + f.unit + ")"
		}
		chart := plot.Lines{
			Title: label, X: plot.Axis{Label: "time (min)", Zero: true}, Y: plot.Axis{Label: label, Zero: true}, Series: []plot.Line{line},
		}
		for name, theme := range map[string]plot.Theme{f.name + ".svg": plot.Light, f.name + "-dark.svg": plot.Dark} {
			picture, err := chart.SVG(theme)
			if err != nil {
				return err
			}
			if err = os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
