package inventory

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"spoolwright/transfer"
)

// Spoolman imports the spools of a Spoolman server: the response of its /api/v1/spool, or its JSON or CSV export. It
// does not change spools that an earlier import created, even if they were changed or removed since. If any spool is
// invalid, the error is InvalidRows, unless skipInvalid is set.
func (i Importer) Spoolman(ctx context.Context, file io.ReadSeeker, skipInvalid bool) (ImportResult, error) {
	return i.importFile(ctx, file, skipInvalid, func(file io.Reader) (rowReader, error) {
		next, err := readSpoolman(file)
		n := 0
		return func() (row importRow, err error) {
			n++
			row.where = fmt.Sprintf("spool %d of the list", n)
			from, err := next()
			if err == io.EOF {
				return row, err
			}
			if err != nil {
				return row, fmt.Errorf("%s: %w", row.where, err)
			}
			if id := from.text("id"); id != "" {
				row.where = "Spoolman's spool " + id
			}
			from.fill(&row)
			return row, nil
		}, err
	})
}

const (
	maxSpoolman = 256 << 20
	spoolPath   = "/api/v1/spool"
)

// OpenSpoolman opens the source of an import: a file, or the list of all spools, including archived ones, of the server
// at an http or https address.
func OpenSpoolman(ctx context.Context, source string) (*os.File, error) {
	scheme, _, remote := strings.Cut(source, "://")
	if !remote {
		f, err := transfer.OpenFile(source)
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
	client := &http.Client{Transport: transport, Timeout: 5 * time.Minute, CheckRedirect: stayOnHost}
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
		return nil, fmt.Errorf("%s answered %s: is it a Spoolman server?", u.Redacted(), response.Status)
	}
	f, err := transfer.Keep(io.LimitReader(response.Body, maxSpoolman+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	if info, err := f.Stat(); err != nil || info.Size() > maxSpoolman {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s sent more than %d MiB", u.Redacted(), maxSpoolman>>20))
	}
	return f, nil
}

// stayOnHost rejects redirects to other hosts: the user named one server, and a server must not make the import send
// requests to others, for example inside the user's network.
func stayOnHost(request *http.Request, via []*http.Request) error {
	switch {
	case request.URL.Host != via[0].URL.Host:
		return fmt.Errorf("it redirects to another host, %s", request.URL.Host)
	case len(via) >= 10:
		return errors.New("it redirects more than 10 times")
	}
	return nil
}

// maxObject limits the size of one spool in JSON. The limit is not exact, because the decoder reads ahead.
const maxObject = 1 << 20

var errLargeObject = fmt.Errorf("one spool has more than %d bytes", maxObject)

// objectReader limits what is read between two calls of next.
type objectReader struct {
	r    io.Reader
	left int
}

func (o *objectReader) next() { o.left = maxObject }

func (o *objectReader) Read(b []byte) (int, error) {
	if o.left <= 0 {
		return 0, errLargeObject
	}
	n, err := o.r.Read(b[:min(len(b), o.left)])
	o.left -= n
	return n, err
}

// spoolmanSpool holds the fields of a spool as texts. Fields of nested objects have names such as filament.vendor.name,
// as in Spoolman's own export. Fields that are null or empty are absent.
type spoolmanSpool map[string]string

// text returns the first of the fields that is present, or "".
func (s spoolmanSpool) text(names ...string) string {
	for _, name := range names {
		if s[name] != "" {
			return s[name]
		}
	}
	return ""
}

// readSpoolman returns a function that returns the next spool, and io.EOF after the last one.
func readSpoolman(file io.Reader) (func() (spoolmanSpool, error), error) {
	r := bufio.NewReader(file)
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	start, _ := r.Peek(512)
	if start = bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && start[0] != '[' && start[0] != '{' {
		return readSpoolmanCSV(r)
	}
	limited := &objectReader{r: r}
	limited.next()
	d := json.NewDecoder(limited)
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errNotSpoolman
	}
	return func() (spoolmanSpool, error) {
		limited.next()
		if !d.More() {
			if limited.left <= 0 {
				return nil, errLargeObject
			}
			if _, err := d.Token(); err != nil {
				return nil, errors.New("the list has no end: the file is incomplete")
			}
			if _, err := d.Token(); err != io.EOF {
				return nil, errors.New("unexpected text after the end of the list: import one list at a time")
			}
			return nil, io.EOF
		}
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		flat := spoolmanSpool{}
		flat.add("", object)
		return flat, nil
	}, nil
}

var errNotSpoolman = errors.New("not a list of spools from Spoolman: " +
	"neither a response of its /api/v1/spool nor one of its exports")

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
	text := func(c transfer.Cell) string {
		if c == nil {
			return ""
		}
		return *c
	}
	c := transfer.NewReader(r)
	header, _, err := c.Next()
	var names []string
	for _, cell := range header {
		names = append(names, text(cell))
	}
	if err != nil || !slices.Contains(names, "id") || !slices.Contains(names, "filament.diameter") {
		return nil, errNotSpoolman
	}
	return func() (spoolmanSpool, error) {
		row, line, err := c.Next()
		if err == transfer.ErrSyntax {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		if err != nil {
			return nil, err
		}
		if len(row) != len(names) {
			return nil, fmt.Errorf("line %d has %d fields, but the header has %d", line, len(row), len(names))
		}
		flat := spoolmanSpool{}
		for i, cell := range row {
			value := strings.TrimSpace(text(cell))
			// Spoolman writes an apostrophe before texts that a spreadsheet would run as a formula.
			if len(value) > 1 && value[0] == '\'' && strings.ContainsRune("=+-@", rune(value[1])) {
				value = value[1:]
			}
			if value != "" {
				flat[names[i]] = value
			}
		}
		return flat, nil
	}, nil
}

// conversion is a spool of Spoolman on its way to a Spool.
type conversion struct {
	spoolmanSpool
	values   map[string]string // fields of the Spool
	facts    []string          // lines of the notes, after the comments
	problems []server.FieldError
}

func (c *conversion) problem(field, message string) {
	c.problems = append(c.problems, server.FieldError{Field: field, Message: message})
}

// fact adds a line to the notes unless the value is empty.
func (c *conversion) fact(name, value string) {
	if value != "" {
		c.facts = append(c.facts, name+": "+value)
	}
}

// maxDensity is the highest density_g_cm3 of a Spool.
const maxDensity = server.Decimal(100_000_000)

// short sets a field of at most 200 characters; a longer value is a fact.
func (c *conversion) short(field, name, value string) {
	if utf8.RuneCountInString(value) > 200 {
		c.fact(name, value)
		return
	}
	c.values[field] = value
}

// times sets the times of use of the row. Invalid times are facts.
func (c *conversion) times(row *importRow) {
	for _, t := range []struct {
		name string
		to   *server.Timestamp
	}{{"First used", &row.FirstUsedAt}, {"Last used", &row.LastUsedAt}} {
		text := c.text(strings.ReplaceAll(strings.ToLower(t.name), " ", "_"))
		if at, ok := parseSpoolmanTime(text); ok && at.Year() >= 1 && at.Year() <= 9999 {
			t.to.Time = at
		} else {
			c.fact(t.name, text)
		}
	}
}

// number returns the value of a numeric field. It is not ok if the field is absent, or invalid, which is a problem.
func (c *conversion) number(name string) (d server.Decimal, ok bool) {
	text := c.text(name)
	if d, ok = server.ParseDecimal(text); !ok && text != "" {
		c.problem(name, "is "+text+", which is not a valid number")
	}
	return d, ok
}

// fill sets the spool, the key and the problems of the row.
func (s spoolmanSpool) fill(row *importRow) {
	c := &conversion{spoolmanSpool: s, values: map[string]string{
		"brand":              s.text("filament.vendor.name"),
		"color":              s.text("filament.name"),
		"spool_weight_grams": s.text("spool_weight", "filament.spool_weight", "filament.vendor.empty_spool_weight"),
		"purchase_price":     s.text("price", "filament.price"),
		"archived":           fmt.Sprint(strings.EqualFold(s.text("archived"), "true") || s.text("archived") == "1"),
	}}
	c.short("location", "Location", s.text("location"))
	c.short("lot_number", "Lot", s.text("lot_nr"))
	if density, ok := server.ParseDecimal(s.text("filament.density")); ok && density > 0 && density <= maxDensity {
		c.values["density_g_cm3"] = density.String()
	}
	c.times(row)
	material, exact := materialOf(s.text("filament.material"))
	c.values["material_type"] = material
	if !exact {
		c.fact("Material", s.text("filament.material"))
	}
	c.convertColors()
	c.convertDiameter()
	c.convertWeights()
	c.values["notes"] = c.notes()
	id := s.text("id")
	if id == "" {
		c.problem("id", "is missing")
	}

	maps.DeleteFunc(c.values, func(_, value string) bool { return value == "" })
	names := slices.Sorted(maps.Keys(c.values))
	var cells []transfer.Cell
	for _, name := range names {
		value := c.values[name]
		cells = append(cells, &value)
	}
	first, last := row.FirstUsedAt, row.LastUsedAt
	var problems []server.FieldError
	row.Spool, problems = server.DecodeTexts[Spool](names, cells, false)
	row.FirstUsedAt, row.LastUsedAt = first, last
	for _, p := range problems {
		if c.values[p.Field] != "" { // for missing values, c has a problem with the name that Spoolman uses
			c.problems = append(c.problems, p)
		}
	}
	row.problems = c.problems
	// Every Spoolman server counts its spools from 1, so the time of registration distinguishes spools of two servers.
	// Its format depends on the source; the key must not.
	row.key = "spoolman " + id
	if t, ok := parseSpoolmanTime(s.text("registered")); ok {
		row.key += " " + t.Format("2006-01-02T15:04:05Z")
	}
}

func (c *conversion) convertColors() {
	var colors, exact []string
	for _, code := range strings.Split(c.text("filament.color_hex", "filament.multi_color_hexes"), ",") {
		if m := hexCode.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			color, alpha := "#"+strings.ToUpper(m[1]), strings.ToUpper(m[2])
			colors = append(colors, color)
			if alpha == "FF" { // opaque, as without an alpha
				alpha = ""
			}
			exact = append(exact, color+alpha)
		} else {
			c.fact("Colour code", strings.TrimSpace(code))
		}
	}
	color := "Unknown"
	if len(colors) > 0 {
		color = colors[0]
		c.values["color_hex"] = color
	}
	if len(colors) > 1 {
		c.fact("Colours", strings.Join(exact, ", "))
	} else if !slices.Equal(exact, colors) {
		c.fact("Colour with alpha", exact[0])
	}
	c.fact("Colour direction", c.text("filament.multi_color_direction"))
	if c.values["color"] == "" {
		c.values["color"] = color
	}
}

func (c *conversion) convertDiameter() {
	const tenth = 100_000
	diameter, ok := c.number("filament.diameter")
	value := ""
	switch {
	case ok && diameter >= 1_750_000-tenth && diameter <= 1_750_000+tenth:
		value = "1.75"
	case ok && diameter >= 2_850_000-tenth && diameter <= 3_000_000+tenth: // filament sold as 3 mm is 2.85 mm thick
		value = "2.85"
	case ok:
		c.problem("filament.diameter", "is "+diameter.String()+", which is neither 1.75 nor 2.85")
	case c.text("filament.diameter") == "":
		c.problem("filament.diameter", "is missing")
	}
	c.values["diameter_mm"] = value
	if ok && diameter.String() != value {
		c.fact("Diameter", diameter.String()+" mm")
	}
}

func (c *conversion) convertWeights() {
	before := len(c.problems)
	net, _ := c.number("initial_weight")
	weight, _ := c.number("filament.weight")
	remaining, known := c.number("remaining_weight")
	used, usedKnown := c.number("used_weight")
	if net <= 0 {
		net = weight
	}
	switch {
	case len(c.problems) > before:
	case net <= 0 && c.text("initial_weight", "filament.weight") == "":
		c.problem("filament.weight", "is missing, and initial_weight too: set one of them in Spoolman")
	case net <= 0:
		c.problem("filament.weight", "must be greater than 0, or initial_weight must be")
	default:
		c.values["net_weight_grams"] = net.String()
		if !known && usedKnown {
			remaining, known = net-used, true
		}
		if known {
			c.values["remaining_weight_grams"] = max(remaining, 0).String()
		}
	}
}

// notes returns the comments and all facts that have no field of their own.
func (c *conversion) notes() string {
	c.fact("Article number", c.text("filament.article_number"))
	c.fact("Nozzle °C", c.text("filament.settings_extruder_temp"))
	c.fact("Bed °C", c.text("filament.settings_bed_temp"))
	registered := c.text("registered")
	if t, ok := parseSpoolmanTime(registered); ok {
		registered = t.Format(time.DateOnly)
	}
	c.fact("Registered", registered)
	c.fact("Spoolman", c.text("id"))

	var comments []string
	if comment := c.text("comment"); comment != "" {
		comments = append(comments, comment)
	}
	if comment := c.text("filament.comment"); comment != "" {
		comments = append(comments, "Filament: "+comment)
	}
	if comment := c.text("filament.vendor.comment"); comment != "" {
		comments = append(comments, "Vendor: "+comment)
	}
	for _, prefix := range []string{"extra.", "filament.extra.", "filament.vendor.extra."} {
		var extra []string
		for name, value := range c.spoolmanSpool {
			if key, ok := strings.CutPrefix(name, prefix); ok {
				var text string // the values of extra fields are JSON within a string
				if json.Unmarshal([]byte(value), &text) != nil {
					text = value
				}
				extra = append(extra, key+": "+text)
			}
		}
		slices.Sort(extra)
		comments = append(comments, extra...)
	}
	return joinNotes(comments, c.facts, 10_000)
}

var hexCode = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})([0-9A-Fa-f]{2})?$`)

// joinNotes joins comments and facts to a text of at most so many characters. It truncates the comments first.
func joinNotes(comments, facts []string, most int) string {
	tail := strings.Join(facts, "\n")
	room := most - utf8.RuneCountInString(tail) - 1
	head := strings.Join(comments, "\n")
	if utf8.RuneCountInString(head) > max(room, 0) {
		const cut = " …"
		head = firstRunes(head, max(room-utf8.RuneCountInString(cut), 0)) + cut
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
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		for _, zone := range []string{"Z07:00", ""} {
			if t, err := time.Parse(layout+zone, s); err == nil {
				return t.UTC(), true
			}
		}
	}
	return time.Time{}, false
}

// materials are the words for each type of material in upper case: the name alone, or with a variant, a filler such as
// CF, a hardness or a number.
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

// materialOf returns the type of a material, and whether the type is the full name: for PLA-CF it is not.
func materialOf(text string) (name string, exact bool) {
	upper := strings.ToUpper(text)
	upper = strings.ReplaceAll(upper, "PET-G", "PETG")
	isSeparator := func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	for word := range strings.FieldsFuncSeq(upper, isSeparator) {
		for _, m := range materials {
			if m.word.MatchString(word) {
				return m.name, strings.EqualFold(m.name, text)
			}
		}
	}
	return "Custom", false
}
