package inventory

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/server"
	"spoolwright/transfer"
)

const (
	maxSpoolman = 256 << 20
	spoolPath   = "/api/v1/spool"
)

// spoolmanLists are the lists of a Spoolman server that an import reads, and their names in a file that has them all.
var spoolmanLists = []struct{ name, path string }{
	{"field_vendor", "/api/v1/field/vendor"}, {"field_filament", "/api/v1/field/filament"},
	{"field_spool", "/api/v1/field/spool"}, {"vendor", "/api/v1/vendor"}, {"filament", "/api/v1/filament"},
	{"spool", spoolPath + "?allow_archived=true"},
}

// OpenSpoolman opens the source of an import: a file, or all lists, including archived spools, of the server at an http
// or https address.
func OpenSpoolman(ctx context.Context, source string) (*os.File, error) {
	base, remote, err := SpoolmanAddress(source)
	if err != nil {
		return nil, err
	}
	if !remote {
		f, err := transfer.OpenFile(source)
		if host, port, _ := net.SplitHostPort(source); errors.Is(err, os.ErrNotExist) && host != "" && port != "" {
			err = fmt.Errorf("%w; if it is an address, write http://%s", err, source)
		}
		return f, err
	}
	client, done := SpoolmanClient()
	defer done()
	f, err := os.CreateTemp("", "spoolwright-import-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	left := int64(maxSpoolman)
	for i, list := range spoolmanLists {
		separator := `,"` + list.name + `":`
		if i == 0 {
			separator = "{" + separator[1:]
		}
		if _, err = f.WriteString(separator); err != nil {
			break
		}
		var n int64
		if n, err = copyList(ctx, client, *base, list.path, f, left); err != nil {
			break
		}
		left -= n
	}
	if err == nil {
		_, err = f.WriteString("}")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// SpoolmanAddress returns the address of a Spoolman server without the path of its API. It is not remote if the source
// is a file.
func SpoolmanAddress(source string) (base *url.URL, remote bool, err error) {
	scheme, _, remote := strings.Cut(source, "://")
	if !remote {
		return nil, false, nil
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || scheme != "http" && scheme != "https" {
		return nil, true, errors.New("the address of Spoolman must be like http://spoolman.example:7912")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, known := range []string{spoolPath, "/api/v1"} {
		u.Path = strings.TrimSuffix(u.Path, known)
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u, true, nil
}

// SpoolmanClient returns a client for requests to a Spoolman server, and a function that ends its connections.
func SpoolmanClient() (*http.Client, func()) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Minute, CheckRedirect: stayOnHost}
	return client, transport.CloseIdleConnections
}

// copyList writes a list of the server, of at most so many bytes, and returns its size. An old server may lack the
// definitions of custom fields, which are then none.
func copyList(
	ctx context.Context, client *http.Client, base url.URL, path string, to io.Writer, left int64,
) (int64, error) {
	base.Path, base.RawQuery, _ = strings.Cut(base.Path+path, "?")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound && strings.Contains(path, "/field/") {
		_, err = to.Write([]byte("[]"))
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answered %s: is it a Spoolman server?", base.Redacted(), response.Status)
	}
	n, err := io.Copy(to, io.LimitReader(response.Body, left+1))
	if err != nil {
		return n, fmt.Errorf("%s: %w", base.Redacted(), err)
	}
	if n > left {
		return n, fmt.Errorf("%s sent more than %d MiB", base.Redacted(), maxSpoolman>>20)
	}
	return n, nil
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

// maxObject limits the size of one object in JSON. The limit is not exact, because the decoder reads ahead.
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

// spoolmanObject holds the fields of an object as texts. Fields of nested objects have names such as
// filament.vendor.name, as in Spoolman's own export. Fields that are null or empty are absent.
type spoolmanObject map[string]string

// text returns the first of the fields that is present, or "".
func (s spoolmanObject) text(names ...string) string {
	for _, name := range names {
		if s[name] != "" {
			return s[name]
		}
	}
	return ""
}

// part returns the fields of a nested object, with their names in it.
func (s spoolmanObject) part(name string) spoolmanObject {
	part := spoolmanObject{}
	for field, value := range s {
		if inner, ok := strings.CutPrefix(field, name+"."); ok {
			part[inner] = value
		}
	}
	return part
}

// readSpoolman calls use for each object of the file with the name of its list.
func readSpoolman(file io.Reader, use func(list string, n int, object spoolmanObject)) error {
	r := bufio.NewReader(file)
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	start, _ := r.Peek(512)
	if start = bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && start[0] != '[' && start[0] != '{' {
		return readSpoolmanCSV(r, use)
	}
	limited := &objectReader{r: r}
	limited.next()
	d := json.NewDecoder(limited)
	d.UseNumber()
	first, err := d.Token()
	if err != nil || first != json.Delim('[') && first != json.Delim('{') {
		return errNotSpoolman
	}
	if first == json.Delim('[') {
		err = readList(d, limited, "spool", use)
	} else {
		known := 0
		for d.More() && err == nil {
			limited.next()
			var name, open json.Token
			if name, err = d.Token(); err == nil {
				open, err = d.Token()
			}
			if err != nil || open != json.Delim('[') {
				return errNotSpoolman
			}
			known++
			err = readList(d, limited, fmt.Sprint(name), use)
		}
		if err == nil && known == 0 {
			return errNotSpoolman
		}
		if err == nil {
			if _, err = d.Token(); err != nil {
				err = errIncomplete
			}
		}
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected text after the end of the list: import one list at a time")
	}
	return nil
}

// readList calls use for the objects of a list, whose beginning has been read.
func readList(
	d *json.Decoder, limited *objectReader, list string, use func(string, int, spoolmanObject),
) error {
	for n := 1; ; n++ {
		limited.next()
		if !d.More() {
			if limited.left <= 0 {
				return errLargeObject
			}
			if _, err := d.Token(); err != nil {
				return errIncomplete
			}
			return nil
		}
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			return fmt.Errorf("%s %d of the list: not a JSON object: %w", list, n, err)
		}
		flat := spoolmanObject{}
		flat.add("", object)
		use(list, n, flat)
	}
}

var errIncomplete = errors.New("the list has no end: the file is incomplete")

var errNotSpoolman = errors.New("not a list of spools from Spoolman: " +
	"neither a response of its /api/v1/spool nor one of its exports")

func (s spoolmanObject) add(prefix string, object map[string]any) {
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			s.add(prefix+name+".", v)
		case []any: // the choices of a custom field, or its default
			if text, err := json.Marshal(v); err == nil {
				s[prefix+name] = string(text)
			}
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

func readSpoolmanCSV(r io.Reader, use func(string, int, spoolmanObject)) error {
	text := func(c transfer.Cell) string { return transfer.ValueText(pointed(c)) }
	c := transfer.NewReader(r)
	header, _, err := c.Next()
	var names []string
	for _, cell := range header {
		names = append(names, text(cell))
	}
	if err != nil || !slices.Contains(names, "id") || !slices.Contains(names, "filament.diameter") {
		return errNotSpoolman
	}
	for n := 1; ; n++ {
		row, line, err := c.Next()
		if err == io.EOF {
			return nil
		}
		if err == transfer.ErrSyntax {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		if err != nil {
			return err
		}
		if len(row) != len(names) {
			return fmt.Errorf("line %d has %d fields, but the header has %d", line, len(row), len(names))
		}
		flat := spoolmanObject{}
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
		use("spool", n, flat)
	}
}

// spoolmanItem is a vendor, filament or spool of Spoolman.
type spoolmanItem struct {
	entity, id string
	key        string // identifies it in all imports
	where      string // for messages
	number     int64  // its id, which is to be its number; 0 if it cannot be
	created    string // its time of registration, or ""
	parent     *spoolmanItem
	values     map[string]any // by column
	shortfall  string         // grams that were used and that the spool did not have, or ""
	remarks    []string       // for the report
	problems   []server.FieldError
}

// conversion is an object of Spoolman on its way to columns.
type conversion struct {
	spoolmanObject
	*spoolmanItem
	texts map[string]string // fields of a Vendor, Filament or Spool
	facts []string          // lines of the notes that no field has a place for
}

// newItem begins the conversion of an object.
func newItem(entity string, n int, s spoolmanObject) *conversion {
	item := &spoolmanItem{entity: entity, id: s.text("id"), where: fmt.Sprintf("%s %d of the list", entity, n)}
	if item.id != "" {
		item.where = "Spoolman's " + entity + " " + item.id
	}
	// Every Spoolman server counts from 1, so the time of registration distinguishes items of two servers. Its format
	// depends on the source; the key must not.
	if item.key = item.id; item.key == "" { // a vendor or filament within a spool, written by hand
		text, _ := json.Marshal(s)
		sum := sha256.Sum256(text)
		item.key = "= " + hex.EncodeToString(sum[:16])
	}
	if t, ok := ParseSpoolmanTime(s.text("registered")); ok {
		item.created = t.Format("2006-01-02T15:04:05.999999Z")
		item.key += " " + t.Format("2006-01-02T15:04:05Z")
	}
	if n, err := strconv.ParseInt(item.id, 10, 64); err == nil && n > 0 && n <= server.MaxNumber {
		item.number = n
	}
	return &conversion{spoolmanObject: s, spoolmanItem: item, texts: map[string]string{}}
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

// short sets a field of at most 200 characters; a longer value is a fact.
func (c *conversion) short(field, name, value string) {
	if utf8.RuneCountInString(value) > 200 {
		c.fact(name, value)
		return
	}
	c.texts[field] = value
}

// number returns the value of a numeric field. It is not ok if the field is absent, or invalid, which is a problem.
func (c *conversion) decimal(name string) (d server.Decimal, ok bool) {
	text := c.text(name)
	if d, ok = server.ParseDecimal(text); !ok && text != "" {
		c.problem(name, "is "+text+", which is not a valid number")
	}
	return d, ok
}

// finish decodes the texts into a T, whose columns become the values. Names are those that Spoolman has for fields.
func finish[T any](c *conversion, names map[string]string) *spoolmanItem {
	var comments []string
	if comment := c.text("comment"); comment != "" {
		comments = append(comments, comment)
	}
	c.texts["notes"] = joinNotes(comments, c.facts, 10_000)
	maps.DeleteFunc(c.texts, func(_, value string) bool { return value == "" })
	fields := slices.Sorted(maps.Keys(c.texts))
	var cells []transfer.Cell
	for _, name := range fields {
		value := c.texts[name]
		cells = append(cells, &value)
	}
	in, problems := server.DecodeTexts[T](fields, cells, true)
	for _, p := range problems {
		if name := names[p.Field]; name != "" {
			p.Field = name
		}
		c.problems = append(c.problems, p)
	}
	values := server.Row(&in)
	maps.Copy(values, c.values)
	values["extra"] = c.extra()
	c.values = values
	return c.spoolmanItem
}

// extra returns the values of custom fields: Spoolman has each of them as a text with JSON.
func (c *conversion) extra() map[string]json.RawMessage {
	extra := server.Extra{}
	for name, value := range c.part("extra") {
		if !extra.SetText(name, value) {
			quoted, _ := json.Marshal(value)
			extra[name] = quoted
		}
	}
	if problem := extra.Problem(); problem != "" {
		c.problem("extra", problem)
	}
	maps.DeleteFunc(extra, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return extra
}

func convertVendor(n int, s spoolmanObject) *spoolmanItem {
	c := newItem("vendor", n, s)
	c.texts["name"], c.texts["empty_spool_weight_grams"] = s.text("name"), s.text("empty_spool_weight")
	c.short("external_id", "External id", s.text("external_id"))
	if s.text("name") == "" {
		c.problem("name", "is missing")
	}
	return finish[Vendor](c, map[string]string{"empty_spool_weight_grams": "empty_spool_weight"})
}

func convertFilament(n int, s spoolmanObject, vendor *spoolmanItem) *spoolmanItem {
	c := newItem("filament", n, s)
	c.parent = vendor
	material := s.text("material")
	c.texts["material_type"], _ = materialOf(material)
	c.values = map[string]any{"name": s.text("name"), "material_name": material} // '' if they are missing
	for name, value := range c.values {
		if utf8.RuneCountInString(value.(string)) > 200 {
			c.problem(strings.TrimSuffix(name, "_name"), "must have at most 200 characters")
		}
	}
	names := map[string]string{"density_g_cm3": "density", "net_weight_grams": "weight", "price": "price",
		"spool_weight_grams": "spool_weight", "extruder_temperature_c": "settings_extruder_temp",
		"bed_temperature_c": "settings_bed_temp"}
	for field, name := range names {
		if d, ok := c.decimal(name); ok && (d != 0 || field != "net_weight_grams" && field != "density_g_cm3") {
			c.texts[field] = d.String()
		}
	}
	c.short("article_number", "Article number", s.text("article_number"))
	c.short("external_id", "External id", s.text("external_id"))
	c.convertDiameter()
	colors := c.convertColors()
	color := "Unknown"
	if len(colors) > 0 {
		color = colors[0]
	}
	c.texts["color"] = cmp.Or(s["name"], color)
	names["diameter_mm"], names["color"] = "diameter", "name"
	return finish[Filament](c, names)
}

// convertColors sets the colours: color_hex is the first of several, and color_hexes has them all.
func (c *conversion) convertColors() []string {
	colors := []string{}
	for code := range strings.SplitSeq(c.text("color_hex", "multi_color_hexes"), ",") {
		if m := hexCode.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			colors = append(colors, "#"+strings.ToUpper(m[1]+m[2]))
		} else {
			c.fact("Colour code", strings.TrimSpace(code))
		}
	}
	if len(colors) > server.MaxColors {
		c.fact("Colours", strings.Join(colors[server.MaxColors:], ", "))
		colors = colors[:server.MaxColors]
	}
	several := []string{}
	if len(colors) > 0 {
		c.texts["color_hex"] = colors[0]
	}
	if len(colors) > 1 {
		several = colors
		if direction := c.text("multi_color_direction"); slices.Contains(ColorArrangement("").Enum(), direction) {
			c.texts["color_arrangement"] = direction
		}
	}
	c.values["color_hexes"] = several
	return colors
}

func (c *conversion) convertDiameter() {
	diameter, ok := c.decimal("diameter")
	nearest, known := NearestDiameter(diameter)
	switch {
	case known:
		c.texts["diameter_mm"] = nearest.String()
		if nearest != diameter {
			c.fact("Diameter", diameter.String()+" mm")
		}
	case ok:
		c.problem("diameter", "is "+diameter.String()+", which is neither 1.75 nor 2.85")
	case c.text("diameter") == "":
		c.problem("diameter", "is missing")
	}
}

// UsualWeight is the weight of a spool that has none in Spoolman.
const UsualWeight = 1000 * server.DecimalOne

func convertSpool(n int, s spoolmanObject, filament *spoolmanItem) *spoolmanItem {
	c := newItem("spool", n, s)
	c.parent = filament
	of, by := s.part("filament"), s.part("filament.vendor")
	archived := strings.EqualFold(s.text("archived"), "true") || s.text("archived") == "1"
	c.texts = map[string]string{"archived": fmt.Sprint(archived),
		"spool_weight_grams": cmp.Or(s["spool_weight"], of["spool_weight"], by["empty_spool_weight"]),
		"purchase_price":     cmp.Or(s["price"], of["price"])}
	c.short("location", "Location", s.text("location"))
	c.short("lot_number", "Lot", s.text("lot_nr"))
	c.values = map[string]any{}
	for column, name := range map[string]string{"first_used_at": "first_used", "last_used_at": "last_used"} {
		text := s.text(name)
		if at, ok := ParseSpoolmanTime(text); ok {
			c.values[column] = at.Format(time.RFC3339Nano)
		} else {
			c.values[column] = nil
			c.fact(strings.ReplaceAll(name, "_", " "), text)
		}
	}
	c.convertWeights(of)
	if c.id == "" {
		c.problem("id", "is missing")
	}
	item := finish[Spool](c, map[string]string{"net_weight_grams": "initial_weight",
		"remaining_weight_grams": "remaining_weight", "spool_weight_grams": "spool_weight", "purchase_price": "price",
		"location": "location"})
	if filament != nil && len(filament.problems) > 0 {
		item.problems = append(item.problems, server.FieldError{Field: "filament",
			Message: "is invalid: " + transfer.Describe(filament.problems)})
	}
	return item
}

func (c *conversion) convertWeights(filament spoolmanObject) {
	before := len(c.problems)
	net, _ := c.decimal("initial_weight")
	remaining, known := c.decimal("remaining_weight")
	used, usedKnown := c.decimal("used_weight")
	if net <= 0 {
		net, _ = server.ParseDecimal(filament.text("weight"))
	}
	if len(c.problems) > before {
		return
	}
	if net <= 0 {
		net = UsualWeight
		c.remarks = append(c.remarks, "has no weight in Spoolman, so it has 1000 g")
		known = false
	}
	if usedKnown && (!known || remaining <= 0) { // Spoolman shows 0 for a spool of which more was used than it had
		remaining, known = net-used, true
	}
	if !known {
		remaining = net
	}
	if remaining < 0 {
		c.shortfall = (-remaining).String()
	}
	c.texts["net_weight_grams"], c.texts["remaining_weight_grams"] = net.String(), max(remaining, 0).String()
}

var hexCode = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})([0-9A-Fa-f]{2})?$`)

// joinNotes joins comments and facts to a text of at most so many characters. It truncates the comments first.
func joinNotes(comments, facts []string, most int) string {
	tail := strings.Join(facts, "\n")
	if tail != "" && len(comments) > 0 {
		tail = "\n" + tail
	}
	room := most - utf8.RuneCountInString(tail)
	head := strings.Join(comments, "\n")
	if utf8.RuneCountInString(head) > max(room, 0) {
		const cut = " …"
		head = firstRunes(head, max(room-utf8.RuneCountInString(cut), 0)) + cut
	}
	return firstRunes(head+tail, most)
}

func firstRunes(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}

// ParseSpoolmanTime parses a time in ISO 8601, which is UTC without an offset.
func ParseSpoolmanTime(s string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04", "2006-01-02"} {
		for _, zone := range []string{"Z07:00", ""} {
			if t, err := time.Parse(layout+zone, s); err == nil && t.Year() > 0 && t.Year() < 10000 {
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
