package web

import (
	"fmt"
	"strings"
	"time"
)

// chart is a picture of the remaining weight of a spool over time, 600 units wide and 120 high.
type chart struct {
	Line, Area string // the data of path elements
	From       *time.Time
	Top        num // the weight at the upper edge
}

const chartWidth, chartHeight = 600.0, 120.0

// remainingChart returns the picture of ledger entries, or nil if there are too few. The newest entry comes first. Net
// is the weight of the full spool.
func remainingChart(entries []usage, net float64, now time.Time) *chart {
	if len(entries) < 2 {
		return nil
	}
	first := *entries[len(entries)-1].CreatedAt
	width := now.Sub(first).Seconds()
	top := net
	for _, e := range entries {
		top = max(top, float(e.After), float(e.Before))
	}
	if width <= 0 || top <= 0 {
		return nil
	}
	y := func(grams float64) string { return coordinate(chartHeight - grams/top*(chartHeight-4) - 2) }
	var line strings.Builder
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		x := coordinate(max(0, e.CreatedAt.Sub(first).Seconds()/width*chartWidth))
		if line.Len() == 0 {
			fmt.Fprintf(&line, "M%s %s", x, y(float(e.After)))
			continue
		}
		fmt.Fprintf(&line, "H%sV%s", x, y(float(e.After)))
	}
	fmt.Fprintf(&line, "H%s", coordinate(chartWidth))
	return &chart{
		Line: line.String(), Area: line.String() + fmt.Sprintf("V%sH0Z", coordinate(chartHeight)),
		From: &first, Top: num(trimFloat(top)),
	}
}

func coordinate(f float64) string { return trimFloat(float64(int(f*10+0.5)) / 10) }
