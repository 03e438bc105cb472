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

// usageChart returns the picture of the rows of a usage report by day, week or month, or nil if there are too few parts
// or none has a use. Parts of the period without a use have no row. The part of today is the last.
func usageChart(rows []usageRow, unit string, from, to, now time.Time) *chart {
	used := map[string]float64{}
	top := 0.0
	for _, row := range rows {
		used[row.Start] = float(row.Grams)
		top = max(top, float(row.Grams))
	}
	part := from
	next := func() time.Time { return part.AddDate(0, 0, 1) }
	switch unit {
	case "week":
		part = from.AddDate(0, 0, -(int(from.Weekday())+6)%7)
		next = func() time.Time { return part.AddDate(0, 0, 7) }
	case "month":
		part = from.AddDate(0, 0, 1-from.Day())
		next = func() time.Time { return part.AddDate(0, 1, 0) }
	}
	var grams []float64
	for last := min(to.Format(time.DateOnly), now.Format(time.DateOnly)); part.Format(time.DateOnly) <= last; part = next() {
		grams = append(grams, used[part.Format(time.DateOnly)])
	}
	if top <= 0 || len(grams) < 2 {
		return nil
	}
	var line strings.Builder
	for i, g := range grams {
		x, y := float64(i)/float64(len(grams)-1)*chartWidth, chartHeight-max(0, g)/top*(chartHeight-4)-2
		fmt.Fprintf(&line, "%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], coordinate(x), coordinate(y))
	}
	return &chart{Line: line.String(), From: &from, Top: num(trimFloat(top)),
		Area: line.String() + fmt.Sprintf("V%sH0Z", coordinate(chartHeight))}
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
