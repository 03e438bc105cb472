package inventory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/server"
)

// Spoolman imports the spools of a Spoolman server: what its /api/v1/spool answers, or what it exports as JSON or CSV. A spool that
// an earlier import has entered is left as it is, even if it was changed or removed since. One that cannot be told as a spool of
// this service is left out with skipBad; without it the error is ErrBadRows, after all of them were told of.
func (i Import) Spoolman(ctx context.Context, file io.ReadSeeker, skipBad bool) (Imported, error) {
	return i.run(ctx, file, skipBad, func(file io.Reader) (nextRow, error) {
		next, err := readSpoolman(file)
		row := 0
		return func(s *imported) (string, []server.FieldError, error) {
			row++
			where := fmt.Sprintf("spool %d of the list", row)
			from, err := next()
			if err == io.EOF {
				return "", nil, err
			}
			if err != nil {
				return "", nil, fmt.Errorf("%s: %w", where, err)
			}
			if id := from.text("id"); id != "" {
				where = "Spoolman's spool " + id
			}
			return where, from.spool(s), nil
		}, err
	})
}

const (
	maxSpoolman = 256 << 20
	spoolPath   = "/api/v1/spool"
)

// OpenSpoolman opens what is to be imported: a file, or the list of all spools, archived ones too, of the server at an http or https
// address.
func OpenSpoolman(ctx context.Context, source string) (*os.File, error) {
	scheme, _, remote := strings.Cut(source, "://")
	if !remote {
		f, err := os.Open(source)
		if host, port, _ := net.SplitHostPort(source); errors.Is(err, os.ErrNotExist) && host != "" && port != "" {
			err = fmt.Errorf("%w; if it is an address, write http://%s", err, source)
		}
		return f, err
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || scheme != "http" && scheme != "https" {
		return nil, errors.New("the address of Spoolman must be like http://spoolman.example:7912")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, known := range []string{spoolPath, "/api/v1"} {
		u.Path = strings.TrimSuffix(u.Path, known)
	}
	u.Path += spoolPath
	u.RawPath, u.RawQuery, u.Fragment = "", "allow_archived=true", ""

	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Minute}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: is there a Spoolman server?", u.Redacted(), response.Status)
	}
	f, err := Keep(io.LimitReader(response.Body, maxSpoolman+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	if info, err := f.Stat(); err != nil || info.Size() > maxSpoolman {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s answers with more than %d MiB", u.Redacted(), maxSpoolman>>20))
	}
	return f, nil
}

// Keep copies what can be read only once into a temporary file, which is gone when it is closed.
func Keep(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "spoolwright-import-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// spoolmanSpool holds the fields of one spool as texts, those of nested objects under names like filament.vendor.name, which is also how
// Spoolman's own export names them. What is null or empty is not there.
type spoolmanSpool map[string]string

func (s spoolmanSpool) text(name string) string { return s[name] }

// first returns the first of the fields that is there.
func (s spoolmanSpool) first(names ...string) string {
	for _, name := range names {
		if s[name] != "" {
			return s[name]
		}
	}
	return ""
}

// readSpoolman returns a function that reads the next spool, until io.EOF.
func readSpoolman(file io.Reader) (func() (spoolmanSpool, error), error) {
	r := bufio.NewReader(file)
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	for {
		b, err := r.Peek(1)
		if err != nil {
			return nil, errNotSpoolman
		}
		if !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			if b[0] != '[' && b[0] != '{' {
				return readSpoolmanCSV(r)
			}
			break
		}
		r.Discard(1)
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errNotSpoolman
	}
	return func() (spoolmanSpool, error) {
		if !d.More() {
			if _, err := d.Token(); err != nil {
				return nil, errors.New("the list has no end: the file is not complete")
			}
			if _, err := d.Token(); err != io.EOF {
				return nil, errors.New("something follows the end of the list: give one list at a time")
			}
			return nil, io.EOF
		}
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			return nil, fmt.Errorf("is no JSON object: %w", err)
		}
		flat := spoolmanSpool{}
		flat.add("", object)
		return flat, nil
	}, nil
}

var errNotSpoolman = errors.New("this is no list of spools as Spoolman's /api/v1/spool answers it, nor an export of them")

func (s spoolmanSpool) add(prefix string, object map[string]any) {
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			s.add(prefix+name+".", v)
		case string:
			if v = strings.TrimSpace(v); v != "" {
				s[prefix+name] = v
			}
		case json.Number:
			s[prefix+name] = v.String()
		case bool:
			s[prefix+name] = fmt.Sprint(v)
		}
	}
}

func readSpoolmanCSV(r io.Reader) (func() (spoolmanSpool, error), error) {
	c := server.NewCSV(r)
	header, _, err := c.Next()
	var names []string
	for _, cell := range header {
		names = append(names, cell.Text)
	}
	if err != nil || !slices.Contains(names, "id") || !slices.Contains(names, "filament.diameter") {
		return nil, errNotSpoolman
	}
	return func() (spoolmanSpool, error) {
		row, line, err := c.Next()
		if err != nil {
			return nil, err
		}
		if len(row) != len(names) {
			return nil, fmt.Errorf("line %d has %d fields, not the %d of the header", line, len(row), len(names))
		}
		flat := spoolmanSpool{}
		for i, cell := range row {
			text := strings.TrimSpace(cell.Text)
			if len(text) > 1 && text[0] == '\'' && strings.ContainsRune("=+-@", rune(text[1])) {
				text = text[1:] // which keeps spreadsheets from taking it for a formula
			}
			if text != "" {
				flat[names[i]] = text
			}
		}
		return flat, nil
	}, nil
}

// spool fills in s, and returns what is wrong.
func (s spoolmanSpool) spool(to *imported) []server.FieldError {
	var problems []server.FieldError
	problem := func(field, message string) {
		problems = append(problems, server.FieldError{Field: field, Message: message})
	}
	values := map[string]string{
		"brand":              s.first("filament.vendor.name"),
		"color":              s.first("filament.name"),
		"spool_weight_grams": s.first("spool_weight", "filament.spool_weight", "filament.vendor.empty_spool_weight"),
		"purchase_price":     s.first("price", "filament.price"),
	}
	var comments, notes []string
	note := func(name, value string) {
		if value != "" {
			notes = append(notes, name+": "+value)
		}
	}

	material, exact := materialOf(s.text("filament.material"))
	values["material_type"] = material
	if !exact {
		note("Material", s.text("filament.material"))
	}

	var colors []string
	for _, code := range strings.Split(s.first("filament.color_hex", "filament.multi_color_hexes"), ",") {
		if m := hexCode.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			colors = append(colors, "#"+strings.ToUpper(m[1]))
		} else if code != "" {
			note("Colour code", strings.TrimSpace(code))
		}
	}
	if len(colors) > 0 {
		values["color_hex"] = colors[0]
	}
	if len(colors) > 1 {
		note("Colours", strings.Join(colors, ", "))
	}
	if values["color"] == "" {
		values["color"] = "Unknown"
		if len(colors) > 0 {
			values["color"] = colors[0]
		}
	}

	number := func(name string) (d server.Decimal, ok bool) {
		text := s.text(name)
		if d, ok = server.ParseDecimal(text); !ok && text != "" {
			problem(name, "is "+text+", which is no number as the service takes it")
		}
		return d, ok
	}
	diameter, ok := number("filament.diameter")
	const tenth = 100_000
	switch {
	case ok && diameter >= 1_750_000-tenth && diameter <= 1_750_000+tenth:
		values["diameter_mm"] = "1.75"
	case ok && diameter >= 2_850_000-tenth && diameter <= 3_000_000+tenth: // what is sold as 3 mm is 2.85
		values["diameter_mm"] = "2.85"
	case ok:
		problem("filament.diameter", "is "+diameter.String()+", which is neither 1.75 nor 2.85")
	case s.text("filament.diameter") == "":
		problem("filament.diameter", "is missing")
	}
	if text := diameter.String(); ok && text != "1.75" && text != "2.85" {
		note("Diameter", text+" mm")
	}

	readable := len(problems)
	initial, _ := number("initial_weight")
	weight, _ := number("filament.weight")
	remaining, known := number("remaining_weight")
	used, usedKnown := number("used_weight")
	net := initial
	if net <= 0 {
		net = weight
	}
	switch {
	case len(problems) > readable: // told of
	case net <= 0 && s.first("initial_weight", "filament.weight") == "":
		problem("filament.weight", "is missing, and initial_weight too: give one of them in Spoolman")
	case net <= 0:
		problem("filament.weight", "must be more than 0, or initial_weight must be")
	default:
		values["net_weight_grams"] = net.String()
		if !known && usedKnown {
			remaining, known = net-used, true
		}
		if known {
			values["remaining_weight_grams"] = max(remaining, 0).String()
		}
	}

	note("Lot", s.text("lot_nr"))
	note("Location", s.text("location"))
	note("Article number", s.text("filament.article_number"))
	if comment := s.text("filament.comment"); comment != "" {
		comments = append(comments, "Filament: "+comment)
	}
	note("Nozzle °C", s.text("filament.settings_extruder_temp"))
	note("Bed °C", s.text("filament.settings_bed_temp"))
	for _, at := range []struct{ name, field string }{{"Registered", "registered"}, {"First used", "first_used"}, {"Last used", "last_used"}} {
		if t, ok := parseSpoolmanTime(s.text(at.field)); ok {
			note(at.name, t.Format(time.DateOnly))
		} else {
			note(at.name, s.text(at.field))
		}
	}
	for _, prefix := range []string{"extra.", "filament.extra."} {
		var extra []string
		for name, value := range s {
			if key, ok := strings.CutPrefix(name, prefix); ok {
				var text string // values are JSON in a string
				if json.Unmarshal([]byte(value), &text) != nil {
					text = value
				}
				extra = append(extra, key+": "+text)
			}
		}
		slices.Sort(extra)
		comments = append(comments, extra...)
	}
	if comment := s.text("comment"); comment != "" {
		comments = slices.Insert(comments, 0, comment)
	}
	if strings.EqualFold(s.text("archived"), "true") || s.text("archived") == "1" {
		notes = append(notes, "Archived in Spoolman")
	}
	note("Spoolman", s.text("id"))
	values["notes"] = shorten(comments, notes, 10_000)

	id := s.text("id")
	if id == "" {
		problem("id", "is missing")
	}

	var names []string
	var row []server.Cell
	for name, value := range values {
		if value != "" {
			names, row = append(names, name), append(row, server.Cell{Text: value})
		}
	}
	found := server.DecodeRecord(names, row, &to.Spool)
	slices.SortFunc(found, func(a, b server.FieldError) int { return strings.Compare(a.Field, b.Field) })
	for _, p := range found {
		// What is missing here was told of above, in Spoolman's terms.
		if values[p.Field] != "" {
			problems = append(problems, p)
		}
	}
	// Servers count their spools from 1, so the time tells them apart, however the spool comes here.
	to.key = "spoolman " + id
	if t, ok := parseSpoolmanTime(s.text("registered")); ok {
		to.key += " " + t.Format("2006-01-02T15:04:05Z")
	}
	return problems
}

var hexCode = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})(?:[0-9A-Fa-f]{2})?$`)

// shorten puts the texts of people before the facts, and cuts them off where both would be longer than most.
func shorten(comments, facts []string, most int) string {
	tail := strings.Join(facts, "\n")
	room := most - utf8.RuneCountInString(tail) - 1
	head := strings.Join(comments, "\n")
	if runes := []rune(head); len(runes) > max(room, 0) {
		const cut = " …"
		head = string(runes[:max(room-len([]rune(cut)), 0)]) + cut
	}
	if head == "" {
		return firstRunes(tail, most)
	}
	return firstRunes(head+"\n"+tail, most)
}

func firstRunes(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}

func parseSpoolmanTime(s string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// materials are the words for each type of material, without regard to case: alone, or with a plus, a filler, a hardness or a number.
var materials = []struct {
	name string
	word *regexp.Regexp
}{
	{"PLA", regexp.MustCompile(`^(R|E|HT|LW|HS)?PLA(PLUS|PRO|MAX|LITE|CF|GF|HF|HS|ST)?\d*$`)},
	{"PETG", regexp.MustCompile(`^(R|HS)?PETG(PLUS|PRO|CF|GF|HF|HS|ESD)?\d*$`)},
	{"ABS", regexp.MustCompile(`^R?ABS(PLUS|PRO|CF|GF|FR)?\d*$`)},
	{"TPU", regexp.MustCompile(`^TPU(HF|HS)?\d*[AD]?$`)},
	{"ASA", regexp.MustCompile(`^R?ASA(PLUS|CF|GF)?\d*$`)},
	{"Nylon", regexp.MustCompile(`^(NYLON|POLYAMIDE|PA|PAHT|COPA|PPA)\d*(CF|GF)?\d*$`)},
	{"PC", regexp.MustCompile(`^(PC|POLYCARBONATE)(PBT|CF|GF|FR)?\d*$`)},
	{"HIPS", regexp.MustCompile(`^HIPS\d*$`)},
	{"PVA", regexp.MustCompile(`^PVA(PLUS)?\d*$`)},
}

// materialOf returns the type of a material, and whether that says all: of PLA-CF it does not.
func materialOf(text string) (name string, exact bool) {
	upper := strings.ToUpper(text)
	upper = strings.ReplaceAll(upper, "PET-G", "PETG")
	for word := range strings.FieldsFuncSeq(upper, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }) {
		for _, m := range materials {
			if m.word.MatchString(word) {
				return m.name, strings.EqualFold(m.name, text)
			}
		}
	}
	return "Custom", false
}
