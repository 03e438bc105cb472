package slicer

import (
	"bytes"
	"strconv"
)

// CuraEngine writes the header before it knows the estimates; Cura replaces the header later. Without Cura, the header
// keeps the time 6666 and has no filament. The estimates are then in the file itself: each layer ends with the elapsed
// time, and the filament follows from the positions of the extruders.
const (
	engineTime   = "6666"
	engineLength = "0m"
)

// tally adds up the filament of the moves behind the line LAYER_COUNT.
type tally struct {
	relative bool
	tool     int
	tools    [8]extruder
}

// extruder has the position of an extruder, and its furthest position since the position was last set. Only moves
// beyond the furthest position count as filament, so that a retraction and its end count nothing.
type extruder struct{ position, furthest, length float64 }

func (t *tally) line(line []byte) {
	switch {
	case bytes.HasPrefix(line, []byte("M82")):
		t.relative = false
	case bytes.HasPrefix(line, []byte("M83")):
		t.relative = true
	case line[0] == 'T':
		if n := int(line[1] - '0'); n >= 0 && n < len(t.tools) {
			t.tool = n
		}
	case bytes.HasPrefix(line, []byte("G92")) || bytes.HasPrefix(line, []byte("G1 ")) ||
		bytes.HasPrefix(line, []byte("G0 ")):
		at := bytes.Index(line, []byte(" E"))
		if at < 0 {
			return
		}
		text, _, _ := bytes.Cut(bytes.TrimSpace(line[at+2:]), []byte(" "))
		e, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return
		}
		x := &t.tools[t.tool]
		if line[1] == '9' {
			x.position, x.furthest = e, e
			return
		}
		if t.relative {
			e += x.position
		}
		if x.position = e; e > x.furthest {
			x.length += e - x.furthest
			x.furthest = e
		}
	}
}

// lengths returns the lengths in millimeters as a list in the syntax of a comment.
func (t *tally) lengths() string {
	var list []byte
	for i, x := range t.tools {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendFloat(list, x.length, 'f', 2, 64)
	}
	return string(list)
}
