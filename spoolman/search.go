package spoolman

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

const (
	maxWords      = 8   // the words of a query that a search uses; it ignores further words
	maxCandidates = 200 // the items of each kind that a search reads and ranks, newest first; at most partBytes of them
)

// The rank of a match; a lower rank is better. rankSure is the rank of an id or a color, rankOwn of a field of the
// item, rankVendor of the name of the item's vendor, and rankExtra of a custom field. A match that is not at the start
// of a text has the rank plus 1.
const (
	rankSure   = -1
	rankOwn    = 0
	rankVendor = 2
	rankExtra  = 4
)

// candidate is an item that may match a search: its JSON, and its texts as [field, text, rank].
type candidate struct {
	ID       int64
	JSON     string
	Texts    [][3]any
	Distance *float64 // from its color to the color in the query; nil if the colors are not similar

	field string
	rank  int
	isID  bool
}

// match reports whether each word matches a text of the item. It sets c.field to the field with the best match of all
// words. The rank of a word is the rank of its best match; match sets c.rank to the worst rank of a word.
func (c *candidate) match(words []string) bool {
	best := 1 << 10
	c.rank = rankSure
	for _, word := range words {
		found := 1 << 10
		for _, t := range c.Texts {
			value, _ := t[1].(string)
			at := strings.Index(strings.ToLower(value), word)
			if at < 0 {
				continue
			}
			rank := int(t[2].(float64)) + min(at, 1)
			if rank < best {
				best, c.field = rank, t[0].(string)
			}
			found = min(found, rank)
		}
		if found == 1<<10 {
			return false
		}
		c.rank = max(c.rank, found)
	}
	return true
}

// searched is a kind of items to search.
type searched struct {
	name, from, json, id string
	item                 string      // a join that makes the JSON of the row i; "" if the rows have it
	fields               [][2]string // the names of fields, and SQL expressions for their values
	vendor               string      // the expression for the name of the vendor, or ""
	extra, entity        string
	where                string
}

// search finds spools, filaments and vendors whose texts contain all words of the query. If the query is a number,
// search also finds the spool with this id. If the query is a color, search also finds the filaments with similar
// colors.
func (q request) search() error {
	text := strings.TrimSpace(q.query.Get("q"))
	if q.query.Get("q") == "" {
		return server.Invalid("q", "is required")
	}
	limit, err := q.whole("limit", 20, 1, 100)
	if err != nil {
		return err
	}
	perFilament, err := q.whole("spools_per_filament", 0, 0, 10)
	if err != nil {
		return err
	}
	threshold := value.Decimal(20 * value.DecimalOne)
	if text := q.query.Get("color_similarity_threshold"); text != "" {
		var ok bool
		if threshold, ok = value.ParseDecimal(text); !ok || threshold < 0 || threshold > 100*value.DecimalOne {
			return server.Invalid("color_similarity_threshold", "must be a number between 0 and 100")
		}
	}
	var words []string
	for _, word := range strings.Fields(strings.ToLower(text)) {
		if !slices.Contains(words, word) && len(words) < maxWords {
			words = append(words, word)
		}
	}
	color := colorOf(text)
	notArchived := " and not s.archived"
	if isTrue(q.query.Get("allow_archived")) {
		notArchived = ""
	}
	kinds := []searched{
		{name: "spool", from: "spools s" + joinFilamentJSON, json: spoolJSON, id: "s.number",
			fields: [][2]string{{"comment", "s.notes"}, {"location", "s.location"}, {"lot_nr", "s.lot_number"}},
			extra:  "s.extra", entity: "spool",
			where: "s.tenant_id = $1::uuid and s.number is not null and s.hidden_at is null" + notArchived},
		{name: "filament", from: filamentRows, json: "j.json", item: joinFilamentItem, id: "i.id",
			fields: [][2]string{{"name", "i.name"}, {"material", "i.material"}, {"article_number", "i.article_number"},
				{"comment", "i.comment"}}, vendor: "i.vendor_name", extra: "i.extra", entity: "filament",
			where: "true"},
		{name: "vendor", from: vendorRows, json: "i.json", id: "i.id",
			fields: [][2]string{{"name", "i.name"}, {"comment", "i.comment"}}, extra: "i.extra", entity: "vendor",
			where: "true"},
	}
	stmts := []*db.Stmt{db.FreshPlan()}
	for _, k := range kinds {
		stmts = append(stmts, k.candidates(q.tenant(), text, words, color, threshold).Bare().
			Keep(maxCandidates, "id").KeepBytes(partBytes))
	}
	if len(words) > 0 {
		if err := q.db.Read(q.r.Context(), stmts...); err != nil {
			return err
		}
	} else if err := q.db.CheckActor(q.r.Context()); err != nil {
		return err
	}
	done, err := server.ReadsFile(q.r.Context())
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	answer := object{"is_color_query": color != ""}
	for i, k := range kinds {
		var all []*candidate
		if err := json.Unmarshal(stmts[i+1].Array(), &all); err != nil {
			return err
		}
		var matches []object
		all = best(all, words, text, k.name, limit)
		var spools map[int64]json.RawMessage
		if k.name == "filament" && perFilament > 0 {
			if spools, err = q.spoolsOf(all, perFilament, notArchived); err != nil {
				return err
			}
		}
		for _, c := range all {
			m := object{k.name: json.RawMessage(c.JSON), "match_field": c.field}
			if s := spools[c.ID]; s != nil {
				if err := json.Unmarshal(s, &m); err != nil { // adds spools and spool_count
					return err
				}
			}
			matches = append(matches, m)
		}
		if matches == nil {
			matches = []object{}
		}
		answer[k.name+"s"] = matches
	}
	body, err := json.Marshal(answer)
	if done(); err != nil {
		return err
	}
	return q.send(body)
}

// whole returns the value of a query parameter, or otherwise if the query does not have it.
func (q request) whole(name string, otherwise, minimum, maximum int) (int, error) {
	if !q.query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(q.query.Get(name))
	if err != nil || n < minimum || n > maximum {
		return 0, server.Invalid(name, "must be a whole number between %d and %d", minimum, maximum)
	}
	return n, nil
}

// candidates returns the statement that reads the newest items that may match, at most maxCandidates.
func (k searched) candidates(tenant, text string, words []string, color string, threshold value.Decimal) *db.Stmt {
	args := []any{tenant}
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	fields := k.fields
	texts := ""
	for _, f := range fields {
		texts += `jsonb_build_array('` + f[0] + `', ` + f[1] + `, ` + strconv.Itoa(rankOwn) + `), `
	}
	if k.vendor != "" {
		fields = append(slices.Clone(fields), [2]string{"vendor.name", k.vendor})
		texts += `jsonb_build_array('vendor.name', ` + k.vendor + `, ` + strconv.Itoa(rankVendor) + `), `
	}
	custom := `from custom_fields c where c.tenant_id = $1::uuid and c.entity = '` + k.entity +
		`' and c.type in ('text', 'choice') and ` + k.extra + ` ? c.key`
	var all []string
	for _, word := range words {
		word := "lower(" + arg(word) + "::text)"
		any := []string{`exists (select ` + custom + ` and strpos(lower(` + k.extra + ` ->> c.key), ` + word +
			`) > 0)`}
		for _, f := range fields {
			any = append(any, `strpos(lower(`+f[1]+`), `+word+`) > 0`)
		}
		all = append(all, "("+strings.Join(any, " or ")+")")
	}
	condition, distance := strings.Join(all, " and "), "null::float8"
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && k.name == "spool" {
		condition = "(" + condition + " or " + k.id + " = " + arg(n) + "::int)"
	}
	if color != "" && k.name == "filament" {
		distance = `(select min(color_distance(` + arg(color) + `, c)) from unnest(i.colors) c)`
		condition = "(" + condition + " or " + distance + " <= " + arg(threshold.String()) + "::float8)"
		distance = `case when ` + distance + ` <= ` + arg(threshold.String()) + `::float8 then ` + distance + ` end`
	}
	column, json := k.json+" as json, ", "i.json"
	if k.item != "" {
		column, json = "", k.json
	}
	return db.SQL(`
		select i.id, json_build_object('id', i.id, 'json', `+json+`, 'texts', i.texts, 'distance', i.distance)
		from (
			select `+k.id+` as id, `+column+distance+` as distance, jsonb_build_array(`+
		strings.TrimSuffix(texts, ", ")+`) || coalesce((
				select jsonb_agg(jsonb_build_array('extra.' || c.key, `+k.extra+` ->> c.key, `+strconv.Itoa(rankExtra)+
		`)) `+
		custom+`), '[]') as texts
			from `+k.from+` where `+k.where+` and `+condition+`
			order by `+k.id+` desc limit `+strconv.Itoa(maxCandidates)+`
		) i`+k.item+` order by i.id desc`, args...)
}

// best returns the best matches, at most limit, the best first.
func best(all []*candidate, words []string, text, kind string, limit int) []*candidate {
	var matches []*candidate
	for _, c := range all {
		switch {
		case kind == "spool" && text == strconv.FormatInt(c.ID, 10):
			c.field, c.rank, c.isID = "id", rankSure, true
		case c.Distance != nil:
			c.field, c.rank = "color", rankSure
		case !c.match(words):
			continue
		}
		matches = append(matches, c)
	}
	distance := func(c *candidate) float64 {
		if c.Distance == nil {
			return 0
		}
		return *c.Distance
	}
	slices.SortFunc(matches, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(distance(a), distance(b)), cmp.Compare(a.ID, b.ID))
	})
	return matches[:min(len(matches), limit)]
}

// spoolsOf returns a JSON object for each filament. "spools" has the spools with the lowest ids, at most limit of
// them. "spool_count" is the number of all spools of the filament. condition excludes spools from both.
func (q request) spoolsOf(filaments []*candidate, limit int, condition string) (map[int64]json.RawMessage, error) {
	var ids []int64
	for _, f := range filaments {
		ids = append(ids, f.ID)
	}
	var body []byte
	spool := objectOf(member{"id", whole, "s.number"}, member{"remaining_weight", decimal, "s.remaining_weight_grams"},
		member{"location", text, "s.location"}, member{"archived", whole, "s.archived"})
	err := q.db.Read(q.r.Context(), db.FreshPlan(), db.SQL(`
		select coalesce(json_object_agg(id, json_build_object('spools', spools, 'spool_count', total)), '{}')::text from (
			select ids.id, coalesce(json_agg(s.json::json order by s.number) filter (where s.place <= $3::int), '[]') as spools,
				count(s.number) as total
			from unnest($2::int[]) ids (id) left join (
				select `+filamentID+` as filament, s.number, `+spool+` as json,
					row_number() over (partition by `+filamentID+` order by s.number) as place
				from spools s`+joinFilament+` where s.tenant_id = $1::uuid and s.hidden_at is null`+condition+`
			) s on s.filament = ids.id
			group by ids.id
		) found`, q.tenant(), ids, limit).Into(&body))
	if err != nil {
		return nil, err
	}
	all := map[int64]json.RawMessage{}
	return all, json.Unmarshal(body, &all)
}

// colorOf returns the six hexadecimal digits of a color. The text is a code or a name of CSS, such as #fa0 or orange.
// The result is "" for any other text.
func colorOf(text string) string {
	name := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), " ", "")
	code := strings.TrimPrefix(name, "#")
	if strings.Trim(code, "0123456789abcdef") == "" {
		switch len(code) {
		case 6:
			return code
		case 3:
			return string([]byte{code[0], code[0], code[1], code[1], code[2], code[2]})
		}
	}
	return colors[name]
}
