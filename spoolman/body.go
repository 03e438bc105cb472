package spoolman

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

type body map[string]json.RawMessage

// body reads the body of a request, whatever its content type: a JSON object, or a JSON string that contains a JSON
// object. Moonraker sends such strings.
func (q request) body() (body, error) {
	text, err := server.ReadBody(q.w, q.r)
	if err != nil {
		return nil, err
	}
	return server.DecodesBody(q.r.Context(), text, func() (body, error) {
		var inner string
		if json.Unmarshal(text, &inner) == nil {
			text = []byte(inner)
		}
		b := body{}
		if !utf8.Valid(text) || len(text) > 0 && json.Unmarshal(text, &b) != nil {
			return nil, &server.Error{Status: 400, Code: "MALFORMED_JSON", Detail: "The body is not a JSON object"}
		}
		return b, nil
	})
}

func (b body) isNull(name string) bool { return len(b[name]) == 0 || string(b[name]) == "null" }

func (b body) has(name string) bool { return b[name] != nil }

// decimal returns the number in a field, or nil if the field is absent or null. The field may be a text that contains
// a number.
func (b body) decimal(name string) (*value.Decimal, error) {
	if b.isNull(name) {
		return nil, nil
	}
	d, ok := value.ParseDecimal(string(unquoted(b[name])))
	if !ok {
		return nil, server.Invalid(name, "must be a number between -999999999 and 999999999")
	}
	return &d, nil
}

// text returns the text in a field, or "" if the field is absent or null.
func (b body) text(name string) (string, error) {
	var s *string
	if b.has(name) && json.Unmarshal(b[name], &s) != nil {
		return "", server.Invalid(name, "must be a text")
	}
	if s == nil {
		return "", nil
	}
	if !isText(*s) {
		return "", server.Invalid(name,
			"must be valid Unicode text without the character U+0000 and marks of direction such as U+202E")
	}
	return *s, nil
}

// required returns the text in a field, or an error if the text is empty.
func (b body) required(name string) (string, error) {
	value, err := b.text(name)
	if err == nil && value == "" {
		err = server.Invalid(name, "must not be empty")
	}
	return value, err
}

// id returns the id in a field, or nil if the field is absent or null.
func (b body) id(name string) (*int64, error) {
	if b.isNull(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(b[name]), `"`), 10, 32)
	if err != nil {
		return nil, server.Invalid(name, "must be a whole number")
	}
	return &n, nil
}

// time returns the time in a field. The result is set if the body has the field. As in Spoolman, a number counts
// seconds since 1970, or milliseconds if it is above 20,000,000,000.
func (b body) time(name string) (t value.Optional[value.Timestamp], err error) {
	if !b.has(name) {
		return t, nil
	}
	if t.Set = true; b.isNull(name) {
		return t, nil
	}
	if n, err := strconv.ParseFloat(strings.Trim(string(b[name]), `"`), 64); err == nil {
		if math.Abs(n) <= 20_000_000_000 {
			n *= 1000
		}
		if at := time.UnixMilli(int64(n)).UTC(); math.Abs(n) < 1e15 && at.Year() > 0 && at.Year() < 10000 {
			return value.Some(value.Timestamp{Time: at}), nil
		}
	}
	s, err := b.text(name)
	at, ok := parseTime(s)
	if err != nil || !ok {
		return t, server.Invalid(name, "must be a time such as 2024-05-01T12:00:00Z")
	}
	return value.Some(value.Timestamp{Time: at}), nil
}

// unquoted removes the quotes of a number in a JSON string, because some clients send numbers as strings. It returns
// other JSON unchanged.
func unquoted(text json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(text, &s) == nil {
		if _, ok := value.ParseDecimal(strings.TrimSpace(s)); ok {
			return json.RawMessage(strings.TrimSpace(s))
		}
	}
	return text
}

// extra returns the custom fields in the body. The body has the value of each custom field as a text that contains
// JSON.
func (b body) extra() (extra value.Optional[value.Extra], err error) {
	if b.isNull("extra") {
		return extra, nil
	}
	var values map[string]*string
	if json.Unmarshal(b["extra"], &values) != nil {
		return extra, server.Invalid("extra", "must be an object whose values are texts with JSON")
	}
	all := value.Extra{}
	for key, text := range values {
		if text == nil {
			all[key] = json.RawMessage("null")
		} else if !all.SetText(key, *text) {
			return extra, badRequest("The custom field %s must be a text with JSON", key)
		}
	}
	if problem := all.Problem(); problem != "" {
		return extra, badRequest("extra %s", problem)
	}
	return value.Some(all), nil
}

// spoolFields, filamentFields and vendorFields map fields of this API to the fields of the service with the same
// meaning. numeric lists the fields of this API whose values are numbers.
var (
	spoolFields = map[string]string{
		"initial_weight": "net_weight_grams", "remaining_weight": "remaining_weight_grams",
		"spool_weight": "spool_weight_grams", "price": "purchase_price", "location": "location",
		"lot_nr":  "lot_number",
		"comment": "notes", "archived": "archived",
	}
	filamentFields = map[string]string{
		"price": "price", "density": "density_g_cm3", "weight": "net_weight_grams",
		"spool_weight":   "spool_weight_grams",
		"article_number": "article_number", "comment": "notes", "settings_extruder_temp": "extruder_temperature_c",
		"settings_bed_temp": "bed_temperature_c", "external_id": "external_id",
	}
	vendorFields = map[string]string{
		"name": "name", "comment": "notes", "empty_spool_weight": "empty_spool_weight_grams",
		"external_id": "external_id",
	}
	numeric = []string{"initial_weight", "remaining_weight", "spool_weight", "price", "density", "weight",
		"settings_extruder_temp", "settings_bed_temp", "empty_spool_weight"}
)

// decode converts the fields of a body to the fields of T and validates them. names maps the names. decode ignores all
// other fields, because clients send whole items back that they have read.
func decode[T any](b body, names map[string]string) (T, error) {
	native := body{}
	for name, field := range names {
		if value := b[name]; value != nil {
			if slices.Contains(numeric, name) {
				value = unquoted(value)
			}
			native[field] = value
		}
	}
	text, err := json.Marshal(native)
	if err != nil {
		return *new(T), badRequest("The body is not a JSON object")
	}
	in, err := server.DecodePatch[T](text)
	var e *server.Error
	if errors.As(err, &e) {
		named := *e
		for _, name := range slices.Sorted(maps.Keys(names)) {
			named.Detail = strings.ReplaceAll(named.Detail, names[name], name)
		}
		err = &named
	}
	return in, err
}

// spoolBody is the body of a request that creates or changes a spool.
type spoolBody struct {
	in       inventory.Spool
	use      inventory.SpoolUse
	filament *int64
}

func readSpool(b body) (s spoolBody, err error) {
	if !b.isNull("remaining_weight") && !b.isNull("used_weight") {
		return s, badRequest("remaining_weight and used_weight exclude each other: send one of them")
	}
	b = maps.Clone(b)
	for _, name := range []string{"initial_weight", "remaining_weight"} {
		if b.isNull(name) || name == "initial_weight" && isZero(b[name]) {
			delete(b, name)
		}
	}
	if truth, ok := truth(b["archived"]); ok {
		b["archived"] = truth
	}
	if s.in, err = decode[inventory.Spool](b, spoolFields); err != nil {
		return s, err
	}
	if s.in.Extra, err = b.extra(); err != nil {
		return s, err
	}
	used, err := b.decimal("used_weight")
	if err != nil {
		return s, err
	}
	if used != nil {
		if *used < 0 || *used > 1_000_000*value.DecimalOne {
			return s, server.Invalid("used_weight", "must be a number between 0 and 1000000")
		}
		s.use.Used = value.Some(*used)
	}
	if s.use.FirstUsed, err = b.time("first_used"); err == nil {
		s.use.LastUsed, err = b.time("last_used")
	}
	if err == nil {
		s.filament, err = b.id("filament_id")
	}
	if err == nil && b.has("filament_id") && s.filament == nil {
		err = server.Invalid("filament_id", "must be the id of a filament")
	}
	return s, err
}

// truth returns true or false for a number or a text that means it, such as 1 or "no". Some clients send the values of
// their forms. ok is false if the JSON is neither.
func truth(text json.RawMessage) (truth json.RawMessage, ok bool) {
	word := strings.ToLower(strings.Trim(string(text), `"`))
	switch {
	case isTrue(word):
		return json.RawMessage("true"), true
	case slices.Contains([]string{"false", "0", "no", "off", "f", "n"}, word):
		return json.RawMessage("false"), true
	}
	return nil, false
}

func isZero(text json.RawMessage) bool {
	d, ok := value.ParseDecimal(string(unquoted(text)))
	return ok && d == 0
}

var hexForm = regexp.MustCompile(`^#?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`)

// readFilament converts the body of a request that creates or changes a filament, without its vendor.
func readFilament(b body, isNew bool) (in inventory.Filament, err error) {
	for _, name := range []string{"density", "diameter"} {
		if isNew && b.isNull(name) || b.has(name) && b.isNull(name) {
			return in, server.Invalid(name, "must be a number greater than 0")
		}
	}
	if in, err = decode[inventory.Filament](b, filamentFields); err != nil {
		return in, err
	}
	if in.Extra, err = b.extra(); err != nil {
		return in, err
	}
	name, err := b.text("name")
	if err != nil {
		return in, err
	}
	material, err := b.text("material")
	if err != nil {
		return in, err
	}
	if utf8.RuneCountInString(name) > 200 || utf8.RuneCountInString(material) > 200 {
		return in, server.Invalid("name", "and material must have at most 200 characters")
	}
	// A new filament without a name or a material gets empty texts. Otherwise the API would show the filament's color
	// as its name, and its type as its material.
	if isNew || b.has("name") {
		in.Name = value.Some(name)
	}
	if isNew || b.has("material") {
		in.MaterialType, in.MaterialName = value.Some(inventory.MaterialOf(material)), value.Some(material)
	}
	if b.has("diameter") {
		diameter, err := b.decimal("diameter")
		if err != nil {
			return in, err
		}
		nearest, ok := inventory.NearestDiameter(*diameter)
		if !ok {
			return in, server.Invalid("diameter", "must be about 1.75 or 2.85")
		}
		in.DiameterMM = value.Some(nearest)
	}
	if err := readColors(b, &in); err != nil {
		return in, err
	}
	if isNew {
		color := name
		color = cmp.Or(color, in.ColorHex.Or("Unknown"))
		in.Color = value.Some(color)
	}
	return in, nil
}

func readColors(b body, in *inventory.Filament) error {
	one, err := b.text("color_hex")
	if err != nil {
		return err
	}
	several, err := b.text("multi_color_hexes")
	if err != nil {
		return err
	}
	direction, err := b.text("multi_color_direction")
	if err != nil {
		return err
	}
	var colors value.Colors
	for code := range strings.SplitSeq(strings.Trim(one+","+several, ","), ",") {
		if code == "" {
			continue
		}
		m := hexForm.FindStringSubmatch(code)
		if m == nil {
			return server.Invalid("color_hex", "and multi_color_hexes must have codes of 6 or 8 hexadecimal digits")
		}
		colors = append(colors, "#"+strings.ToUpper(m[1]))
	}
	switch {
	case one != "" && several != "":
		return server.Invalid("color_hex", "and multi_color_hexes exclude each other")
	case several != "" && (len(colors) < 2 || len(colors) > value.MaxColors):
		return server.Invalid("multi_color_hexes", "must have 2 to %d colors", value.MaxColors)
	case several != "" && direction == "" || several == "" && direction != "":
		return server.Invalid("multi_color_direction", "belongs to multi_color_hexes: send both or neither")
	case direction != "" && direction != "coaxial" && direction != "longitudinal":
		return server.Invalid("multi_color_direction", "must be coaxial or longitudinal")
	}
	if b.has("color_hex") || b.has("multi_color_hexes") {
		in.ColorHex.Set, in.ColorArrangement.Set = true, true
		in.ColorHexes = value.Some(value.Colors{})
		if len(colors) > 0 {
			in.ColorHex = value.Some(colors[0])
		}
		if several != "" {
			in.ColorHexes = value.Some(colors)
			in.ColorArrangement = value.Some(inventory.ColorArrangement(direction))
		}
	}
	return nil
}

// setVendor sets the vendor of a filament to the vendor whose id is in the body. If the id is the id of a computed
// vendor, the filament gets the vendor with its name.
func (q request) setVendor(ctx context.Context, b body, in *inventory.Filament, isNew bool) error {
	id, err := b.id("vendor_id")
	if err != nil || !b.has("vendor_id") {
		return err
	}
	in.VendorID.Set = true
	switch {
	case id == nil || *id == unknownVendor:
		return nil
	case *id < firstComputed:
		vendor, weight, err := inventory.VendorByNumber(ctx, q.db, *id)
		if errors.Is(err, server.ErrNotFound) {
			return notFound("vendor", *id)
		}
		in.VendorID.Value = &vendor
		if isNew && in.SpoolWeight.IsNull() {
			in.SpoolWeight = weight
		}
		return err
	}
	var text []byte
	brand := selectVendor(q.tenant(), *id).Into(&text)
	if err := q.db.Write(ctx, brand); err != nil {
		return err
	}
	if brand.Rows() == 0 {
		return notFound("vendor", *id)
	}
	var vendor struct{ Name string }
	err = json.NewDecoder(bytes.NewReader(text)).Decode(&vendor)
	in.VendorID, in.Vendor = value.Optional[value.UUID]{}, value.Some(vendor.Name)
	return err
}

// readVendor converts the body of a request that creates or changes a vendor.
func readVendor(b body, isNew bool) (in inventory.Vendor, err error) {
	name, err := b.text("name")
	if err != nil {
		return in, err
	}
	if (isNew || b.has("name")) && b.isNull("name") {
		return in, server.Invalid("name", "must be a text")
	}
	if b.has("name") && name == "" { // only this API accepts an empty name
		rest := maps.Clone(b)
		delete(rest, "name")
		b = rest
		defer func() { in.Name = value.Some("") }()
	}
	if in, err = decode[inventory.Vendor](b, vendorFields); err == nil {
		in.Extra, err = b.extra()
	}
	return in, err
}
