package web

import (
	"fmt"
	"strings"
	"time"
)

// chart is a picture of grams over time, 600 units wide and 120 high.
type chart struct {
	Line, Area string // the data of path elements
	From       *time.Time
	Top        num // the weight at the upper edge
}

// timeUnit returns the group of the usage report that divides a period into at most about 60 parts: day, week or month.
func timeUnit(from, to time.Time) string {
	switch days := to.Sub(from).Hours() / 24; {
	case days < 62:
		return "day"
	case days < 400:
		return "week"
	}
	return "month"
}

// usageChart returns the picture of the filled rows of a usage report, or nil if there are too few or none has a use.
func usageChart(rows []usageRow) *chart {
	top := 0.0
	for _, row := range rows {
		top = max(top, float(row.Grams))
	}
	if top <= 0 || len(rows) < 2 {
		return nil
	}
	points := make([]string, len(rows))
	for i, row := range rows {
		points[i] = coordinate(float64(i)/float64(len(rows)-1)*chartWidth) + " " + heightOf(float(row.Grams), top)
	}
	return newChart("M"+strings.Join(points, "L"), top)
}

// newChart returns the picture with a line, whose upper edge is at a weight.
func newChart(line string, top float64) *chart {
	return &chart{Line: line, Area: line + "V" + coordinate(chartHeight) + "H0Z", Top: num(trimFloat(top))}
}

// heightOf returns the coordinate of a weight.
func heightOf(grams, top float64) string {
	return coordinate(chartHeight - max(0, grams)/top*(chartHeight-4) - 2)
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
	var line strings.Builder
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		x := coordinate(max(0, e.CreatedAt.Sub(first).Seconds()/width*chartWidth))
		if line.Len() == 0 {
			fmt.Fprintf(&line, "M%s %s", x, heightOf(float(e.After), top))
			continue
		}
		fmt.Fprintf(&line, "H%sV%s", x, heightOf(float(e.After), top))
	}
	fmt.Fprintf(&line, "H%s", coordinate(chartWidth))
	c := newChart(line.String(), top)
	c.From = &first
	return c
}

func coordinate(f float64) string { return trimFloat(float64(int(f*10+0.5)) / 10) }
