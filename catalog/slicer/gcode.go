package slicer

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gcode collects the values in the comments of G-code and in the settings of other formats.
type gcode struct {
	values  [attributes]string
	known   [attributes]bool
	volumes map[int]string // Cura's MATERIAL.VOLUME_USED of the extruders from the second on
	lengths map[int]string // of the filaments of KISSlicer's extruders, from 0 on

	picture picture
	qoi     picture  // in the format QOI, which is decoded if there is no other picture
	reading *picture // of which the lines are; or nil

	objects map[string]bool // the printed objects by the comments
	defined map[string]bool // the objects in the commands for Klipper, which use other names
	elapsed string          // Cura's time until the last layer
	tally   *tally          // of a file whose header has no estimates, or nil
	end     string          // the last one of endMarks in the file
}

const maxObjects = 2000

// picture is the largest picture of the file so far, in the format QOI or in another one.
type picture struct {
	data   []byte // as base64 while it is read
	area   int
	next   []byte
	size   int  // of next
	ignore bool // next is too large, or smaller than data
}

func newGCode() *gcode {
	return &gcode{volumes: map[int]string{}, lengths: map[int]string{}, objects: map[string]bool{},
		defined: map[string]bool{}}
}

// scan reads all lines. Its speed determines the speed of the service for large files: it examines only lines that
// begin like a comment or like the definition of an object.
func (g *gcode) scan(r *bufio.Reader) error {
	for n := 0; ; n++ {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			line = bytes.Clone(line)
			for err == bufio.ErrBufferFull {
				_, err = r.ReadSlice('\n')
			}
		}
		if n < 8 {
			if bytes.IndexByte(line, 0) >= 0 {
				return broken("This is neither G-code nor a 3MF or UFP file")
			}
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) > 1 {
			switch line[0] {
			case ';':
				g.comment(bytes.TrimSpace(line[1:]))
			case 'E':
				g.definition(line)
			case 'G', 'M', 'T':
				if g.tally != nil {
					g.tally.line(line)
				}
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// definition records an object of the command EXCLUDE_OBJECT_DEFINE of Klipper.
func (g *gcode) definition(line []byte) {
	if rest, ok := bytes.CutPrefix(line, []byte("EXCLUDE_OBJECT_DEFINE NAME=")); ok {
		name, _, _ := bytes.Cut(rest, []byte(" "))
		note(g.defined, bytes.TrimSpace(name))
	}
}

func note(objects map[string]bool, name []byte) {
	if len(name) > 0 && len(name) <= maxText && !objects[string(name)] && len(objects) < maxObjects {
		objects[string(name)] = true
	}
}

func (g *gcode) comment(text []byte) {
	if g.reading != nil {
		g.pictureLine(text)
		return
	}
	if len(text) == 0 {
		return
	}
	for _, mark := range endMarks {
		if bytes.HasPrefix(text, []byte(mark)) {
			g.end = mark
			return
		}
	}
	switch text[0] {
	case 't':
		if g.pictureBegins(text) {
			return
		}
	case 'T':
		if time, ok := bytes.CutPrefix(text, []byte("TIME_ELAPSED:")); ok && len(time) < 32 {
			g.elapsed = string(time)
			return
		}
	case 'L':
		if g.tally == nil && g.values[metres] == engineLength && bytes.HasPrefix(text, []byte("LAYER_COUNT:")) {
			g.tally = &tally{}
		}
	case 'p':
		if name, ok := bytes.CutPrefix(text, []byte("printing object ")); ok {
			note(g.objects, name)
			return
		}
	case 'M':
		if name, ok := bytes.CutPrefix(text, []byte("MESH:")); ok {
			if string(name) != "NONMESH" {
				note(g.objects, name)
			}
			return
		}
	}
	if !g.known[program] {
		for _, p := range programs {
			if rest, ok := bytes.CutPrefix(text, []byte(p.start)); ok {
				name, _, _ := strings.Cut(p.name+string(rest), " on ")
				name, _, _ = strings.Cut(name, " at ")
				name, _, _ = strings.Cut(name, ",")
				g.set(program, name)
				return
			}
		}
	}
	at := bytes.IndexAny(text, "=:")
	if at < 0 && strings.HasPrefix(g.values[program], "Simplify3D") { // "layerHeight,0.2"
		at = bytes.IndexByte(text, ',')
	}
	if at <= 0 || at > 48 {
		return
	}
	g.setting(text[:at], text[at+1:])
}

// setting records the value of a name in names, and ignores other names.
func (g *gcode) setting(name, value []byte) {
	var lower [49]byte
	name = bytes.TrimSpace(name)
	if len(name) > len(lower) {
		return
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	if a, ok := names[string(lower[:len(name)])]; ok {
		if !g.known[a] {
			g.set(a, string(bytes.TrimSpace(value[:min(len(value), lineBuffer)])))
		}
		return
	}
	if rest, ok := bytes.CutPrefix(lower[:len(name)], []byte("ext ")); ok { // "Ext #1 = 0.10 mm (0.001 cm^3)"
		i, err := strconv.Atoi(strings.TrimPrefix(string(rest), "#"))
		if err == nil && i > 0 && i <= maxSlots && len(value) <= maxText {
			g.lengths[i-1] = string(bytes.TrimSpace(value))
		}
		return
	}
	if rest, ok := bytes.CutPrefix(lower[:len(name)], []byte("extruder_train.")); ok {
		if n, ok := bytes.CutSuffix(rest, []byte(".material.volume_used")); ok {
			if i, err := strconv.Atoi(string(n)); err == nil && i > 0 && i < maxSlots && len(value) <= maxText {
				g.volumes[i] = string(bytes.TrimSpace(value))
			}
		}
	}
}

func (g *gcode) set(a attribute, value string) {
	if a != none && !g.known[a] && value != "" {
		g.known[a], g.values[a] = true, strings.Clone(value)
	}
}

var thumbnail = regexp.MustCompile(`^thumbnail(_JPG|_QOI|_PNG)? (begin|BEGIN) (\d{1,5})[x ](\d{1,5})`)

// pictureBegins reports whether the comment begins a picture.
func (g *gcode) pictureBegins(text []byte) bool {
	if !bytes.HasPrefix(text, []byte("thumbnail")) {
		return false
	}
	m := thumbnail.FindSubmatch(text)
	if m == nil {
		return false
	}
	width, _ := strconv.Atoi(string(m[3]))
	height, _ := strconv.Atoi(string(m[4]))
	p := &g.picture
	if string(m[1]) == "_QOI" {
		p = &g.qoi
	}
	p.next, p.size, p.ignore = nil, width*height, width*height <= p.area
	g.reading = p
	return true
}

func (g *gcode) pictureLine(text []byte) {
	p := g.reading
	switch {
	case bytes.HasPrefix(text, []byte("thumbnail")):
		g.reading = nil
		data := make([]byte, base64.StdEncoding.DecodedLen(len(p.next)))
		if n, err := base64.StdEncoding.Decode(data, p.next); err == nil && n > 0 && !p.ignore {
			p.data, p.area = data[:n], p.size
		}
		p.next = nil
	case p.ignore:
	case len(p.next)+len(text) > maxPicture/3*4:
		p.ignore, p.next = true, nil
	default:
		p.next = append(p.next, text...)
	}
}

// plate returns the plate that the comments describe.
func (g *gcode) plate() Plate {
	if g.tally != nil {
		if g.known[metres] = false; g.values[duration] == engineTime {
			g.values[duration] = g.elapsed
		}
		g.set(millimeters, g.tally.lengths())
	}
	if g.picture.data == nil {
		g.picture.data = fromQOI(g.qoi.data)
	}
	p := Plate{Number: 1, Sliced: true, Picture: g.picture.data, Pieces: g.pieces(), Filaments: g.filaments()}
	if g.known[duration] {
		p.Seconds = parseDuration(g.values[duration])
	} else if g.known[durations] {
		_, total, _ := strings.Cut(g.values[durations], "total estimated time:")
		if p.Seconds = parseDuration(total); p.Seconds == 0 {
			model, _, _ := strings.Cut(g.values[durations], ";")
			p.Seconds = parseDuration(model)
		}
	}
	return p
}

// file returns the file that consists of one plate.
func (g *gcode) file() (*File, error) {
	f := &File{Plates: []Plate{g.plate()}}
	g.describe(f)
	if p := f.Plates[0]; p.Seconds == 0 && len(p.Filaments) == 0 {
		if g.known[program] {
			return nil, broken("The file has neither a print time nor filament; it was not copied completely, or %s "+
				"could not write them", cleanText(g.values[program]))
		}
		return nil, ErrUnknown
	}
	return f, nil
}

// incomplete reports whether the file lacks the mark that its program writes after the last move.
func (g *gcode) incomplete() bool {
	if g.values[metres] == engineLength {
		return false // CuraEngine on its own may write no mark
	}
	for _, p := range lastMarks {
		if strings.HasPrefix(g.values[program], p.program) {
			return !slices.Contains(p.marks, g.end)
		}
	}
	return false
}

// describe sets the empty fields of the file from the settings.
func (g *gcode) describe(f *File) {
	if f.Name == "" {
		f.Name = g.values[title]
	}
	if f.Program == "" {
		f.Program = g.values[program]
	}
	if f.Printer == "" {
		f.Printer = unquote(g.values[printer])
	}
	if f.NozzleMM == 0 {
		f.NozzleMM = number(first(numbers(g.values[nozzle])))
	}
	if f.LayerHeightMM == 0 {
		f.LayerHeightMM = number(g.values[layerHeight])
	}
}

// filaments returns the filaments that the plate uses.
func (g *gcode) filaments() (used []Filament) {
	weights, lengths := numbers(g.values[grams]), numbers(g.values[millimeters])
	if lengths == nil {
		lengths = numbers(g.values[metres])
	}
	if lengths == nil && len(g.lengths) > 0 {
		lengths = make([]string, 1+slices.Max(slices.Collect(maps.Keys(g.lengths))))
		for i, text := range g.lengths {
			lengths[i] = text
		}
	}
	volumes := numbers(g.values[cubicCM])
	inCM := volumes != nil
	if !inCM {
		volumes = numbers(g.values[cubicMM])
		for i := 1; i < maxSlots && g.volumes[i] != ""; i++ {
			volumes = append(volumes, g.volumes[i])
		}
	}
	if len(weights)+len(lengths)+len(volumes) == 0 && len(numbers(g.values[types])) < 2 {
		weights = numbers(g.values[totalGrams]) // scripts and plug-ins write only these
	}
	count := min(max(len(weights), len(lengths), len(volumes)), maxSlots)
	kinds, shades := texts(g.values[types], count), texts(g.values[colors], count)
	if p := g.values[program]; strings.HasPrefix(p, "PrusaSlicer ") || strings.HasPrefix(p, "SuperSlicer ") {
		for i, color := range texts(g.values[shown], count) {
			if strings.HasPrefix(color, "#") && i < count { // others, such as Bambu Studio, write a constant
				shades = append(shades, make([]string, max(0, i+1-len(shades)))...)
				shades[i] = color
			}
		}
	}
	presets, makers := texts(g.values[profiles], count), texts(g.values[vendors], count)
	density, wide := numbers(g.values[densities]), numbers(g.values[diameters])
	places := numbers(g.values[slots])
	for i := range count {
		slot := i
		if n := int(number(at(places, i))); len(places) == count && n > 0 {
			slot = n - 1
		}
		m := Filament{
			Type: at(kinds, slot), Color: at(shades, slot), Vendor: at(makers, slot), Profile: at(presets, slot),
			Grams: number(at(weights, i)), Volume: number(at(volumes, i)),
			DensityG: number(at(density, slot)), DiameterMM: number(at(wide, slot)),
		}
		if g.known[millimeters] {
			m.Length = number(at(lengths, i))
		} else {
			m.Length = length(at(lengths, i))
		}
		if inCM {
			m.Volume *= 1000
		}
		if m.Grams > 0 || m.Length > 0 || m.Volume > 0 {
			used = append(used, m)
		}
	}
	return used
}

// pieces returns the number of pieces that the plate prints: the number of its objects if all are copies of one
// object, and otherwise 1, because different objects are parts of one piece. It returns 0 if the file has no objects.
func (g *gcode) pieces() int {
	all := g.objects
	if len(all) == 0 {
		all = g.defined
	}
	if g.known[objects] {
		var list struct{ Objects []struct{ Name string } }
		if json.Unmarshal([]byte(g.values[objects]), &list) == nil {
			all = map[string]bool{}
			for i, o := range list.Objects {
				all[o.Name+"\x00"+strconv.Itoa(i)] = true
			}
		}
	}
	return countCopies(all)
}

var copySuffix = regexp.MustCompile(`(?i)(\x00\d+|[ _]id[:_ ]?\d+|[ _]copy[:_ ]?\d+|, instance \d+|[ _]?\(\d+\))$`)

// countCopies returns the number of objects if their names differ only in the number of the copy, and otherwise 1.
func countCopies(objects map[string]bool) int {
	base := ""
	for name := range objects {
		for range 4 {
			name = strings.TrimSpace(copySuffix.ReplaceAllString(name, ""))
		}
		name = extension.ReplaceAllString(name, "") // "cube.stl" and "cube(1).stl"
		for range 2 {
			name = copySuffix.ReplaceAllString(name, "")
		}
		if base != "" && name != base {
			return 1
		}
		base = name
	}
	return len(objects)
}

var extension = regexp.MustCompile(`(?i)[._](stl|3mf|obj|step|stp|amf)$`)

var errNumber = errors.New("not a number")

// numbers returns the entries of a list of numbers.
func numbers(list string) []string {
	if list == "" {
		return nil
	}
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ';' || c == '\t' })
}

// number returns the number at the beginning of a text, or 0.
func number(text string) float64 {
	n, _, err := leadingNumber(strings.Trim(text, " \t\"'[]"))
	if err != nil {
		return 0
	}
	return n
}

// length returns a length in millimeters. A number without a unit is in meters, as in Cura.
func length(text string) float64 {
	n, unit, err := leadingNumber(strings.TrimSpace(text))
	switch {
	case err != nil:
		return 0
	case strings.HasPrefix(unit, "mm"):
		return n
	}
	return n * 1000
}

func leadingNumber(text string) (n float64, rest string, err error) {
	end := strings.IndexFunc(text, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	if end < 0 {
		end = len(text)
	}
	if end == 0 || end > 32 {
		return 0, text, errNumber
	}
	n, err = strconv.ParseFloat(text[:end], 64)
	return n, strings.TrimSpace(text[end:]), err
}

// texts returns the entries of a list of names. Semicolons separate them, or commas if there are as many entries as
// filaments. Names may be in quotes.
func texts(list string, count int) []string {
	entries := split(list, ';')
	if len(entries) == 1 && count > 1 {
		if byComma := split(list, ','); len(byComma) == count {
			entries = byComma
		}
	}
	for i := range entries {
		entries[i] = unquote(entries[i])
	}
	return entries
}

// split splits a list at a separator that is not in quotes.
func split(list string, separator byte) (entries []string) {
	if list == "" {
		return nil
	}
	quoted, start := false, 0
	for i := 0; i < len(list) && len(entries) < maxSlots; i++ {
		switch list[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case separator:
			if !quoted {
				entries = append(entries, list[start:i])
				start = i + 1
			}
		}
	}
	return append(entries, list[start:])
}

func unquote(text string) string {
	text = strings.TrimSpace(text)
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`)
	}
	return text
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func first(list []string) string { return at(list, 0) }

// parseDuration returns the seconds of a time such as "1d 2h 3m 4s", "1 hours 23 minutes", "01:02:03" or "3723.4".
// A text that does not begin with a number has no seconds.
func parseDuration(text string) int64 {
	text = strings.TrimSpace(text)
	if parts := strings.Split(text, ":"); len(parts) > 1 && len(parts) <= 4 {
		total := 0.0
		for _, part := range parts {
			total = total*60 + number(part)
		}
		return seconds(total)
	}
	total := 0.0
	for text != "" {
		n, rest, err := leadingNumber(text)
		if err != nil {
			break
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return c < 'A' })
		if end < 0 {
			end = len(rest)
		}
		unit := strings.ToLower(rest[:end])
		text = strings.TrimSpace(rest[end:])
		switch {
		case strings.HasPrefix(unit, "d"):
			total += n * 86400
		case strings.HasPrefix(unit, "h"):
			total += n * 3600
		case strings.HasPrefix(unit, "m"):
			total += n * 60
		default:
			total += n
		}
	}
	return seconds(total)
}

func seconds(n float64) int64 {
	if !(n > 0 && n <= maxSeconds) {
		return 0
	}
	return int64(n + 0.5)
}
