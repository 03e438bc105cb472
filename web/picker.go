package web

import (
	"cmp"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
)

// A picker is an input that chooses one of many things, such as a product. Its search field has the name
// find.KIND.NAME, where KIND is a key of pickers and NAME is the name of the input. With the script, the field is a
// combobox that shows what /choices/KIND finds. Without it, the button with the name find sends the form, and the page
// shows the form again, with the choices as radio buttons. If a form is sent with a text and no choice, the text counts
// as the only thing that it finds, or as the only one that it names.

// choice is a thing to choose.
type choice struct {
	Value string // of the input
	Name  string
	Key   string // the SKU, or another text that people type for the name
	About string
	Sign  template.HTML // the swatch or the picture
}

// picker finds things of a kind.
type picker struct {
	path  string // the list of the API
	found string // parameters for what can be found
	one   string // parameters for one thing, whose value follows; in a list of choices, the first word of the value
	free  bool   // whether other texts are values, too
	list  func(v *visit, path string, query url.Values) (choices []choice, total int, err error)

	// code returns the value of a text that is a number or the code of a label, or "".
	code func(text string) string
}

// perSearch is the number of things that a search of a picker shows.
const perSearch = 20

// maxSearches is the maximum number of texts that are searched when a form is sent.
const maxSearches = 20

func newPicker[T any](path, found, one string, choices func(*visit, *T) []choice) *picker {
	return &picker{path: path, found: found, one: one, list: func(v *visit, path string, query url.Values) (all []choice,
		total int, err error) {
		var page struct {
			Items []T
			Total int
		}
		if err := v.fetch(read{path: path, query: query, into: &page}); err != nil {
			return nil, 0, err
		}
		for i := range page.Items {
			all = append(all, choices(v, &page.Items[i])...)
		}
		return all, page.Total, nil
	}}
}

var pickers = map[string]*picker{}

func init() {
	const byName, spoolsBy = "sort_by=name&sort_order=asc", "archived=any&number="
	filaments := func(number bool) func(*visit, *filament) []choice {
		return func(v *visit, f *filament) []choice {
			about := join(" · ", f.Maker(), v.t("%s in stock", v.Grams(f.Remaining)))
			c := choice{f.ID, f.Title(), f.Article, about, f.Swatch()}
			if number {
				c.Value = strconv.FormatInt(f.Number, 10)
			}
			return []choice{c}
		}
	}
	spools := func(v *visit, s *spool) []choice {
		number := strconv.FormatInt(s.Number, 10)
		return []choice{{number, "#" + number + " " + s.Name(), "",
			join(" · ", s.Maker(), v.Grams(s.Remaining), s.Location), s.Swatch()}}
	}
	printers := func(value func(*printer) string) func(*visit, *printer) []choice {
		return func(v *visit, p *printer) []choice {
			return []choice{{value(p), p.Name, "", join(" · ", p.Model, p.Location, p.State(v)), ""}}
		}
	}
	pickers["products"] = newPicker("/api/v1/products", byName, "id=", func(v *visit, p *product) []choice {
		return []choice{{p.ID, p.Name, p.SKU, join(" · ", p.SKU, v.t("%d in stock", p.OnHand)), thumb(p.ID, p.Picture)}}
	})
	pickers["filaments"] = newPicker("/api/v1/filaments", "", "id=", filaments(false))
	pickers["filament-numbers"] = newPicker("/api/v1/filaments", "", "number=", filaments(true))
	pickers["filament-numbers"].code = func(text string) string {
		return onlyNumber(strings.TrimPrefix(text, "#"))
	}
	pickers["spools"] = newPicker("/api/v1/spools", "in_stock=true", spoolsBy, spools)
	pickers["any-spools"] = newPicker("/api/v1/spools", "archived=any", spoolsBy, spools)
	for _, kind := range []string{"spools", "any-spools"} {
		pickers[kind].code = func(text string) string {
			if number, ok := spoolCode(text); ok {
				return number
			}
			return onlyNumber(strings.TrimPrefix(text, "#"))
		}
	}
	pickers["orders"] = newPicker("/api/v1/orders", "", "id=", func(v *visit, o *order) []choice {
		return []choice{{o.ID, cmp.Or(o.Customer, o.Reference, v.t("Order")), o.Reference,
			join(" · ", o.Reference, o.Wanted(v), v.t(orderStates[o.Status])), thumbOf(o.listed())}}
	})
	const usable = byName + "&status=available,maintenance"
	pickers["printers"] = newPicker("/api/v1/printers", usable, "id=", printers(func(p *printer) string { return p.ID }))
	pickers["any-printers"] = newPicker("/api/v1/printers", byName, "id=",
		printers(func(p *printer) string { return p.ID }))
	pickers["printer-names"] = newPicker("/api/v1/printers", usable, "name=",
		printers(func(p *printer) string { return p.Name }))
	pickers["printer-names"].free = true
	pickers["slots"] = newPicker("/api/v1/printers", usable, "id=", func(v *visit, p *printer) []choice {
		return p.choices(v)
	})
}

// onlyNumber returns the text if it is a number of a spool or the like, or "".
func onlyNumber(text string) string {
	if !isNumber(text) {
		return ""
	}
	return text
}

// hits are what a picker has found. A page with hits has the next page if there are more.
type hits struct {
	Text  string
	Items []choice
	Page  int
	More  bool
}

// search returns a page of what the text finds. What the text names by its number comes first.
func (k *picker) search(v *visit, text string, page int) (*hits, error) {
	h := &hits{Text: text, Page: page}
	code := ""
	if k.code != nil {
		code = k.code(text)
	}
	if code != "" {
		if one, err := k.chosen(v, code); err != nil {
			return nil, err
		} else if one != nil {
			h.Items = []choice{*one}
			return h, nil
		}
	}
	query, _ := url.ParseQuery(k.found)
	query.Set("limit", strconv.Itoa(perSearch))
	if page > 1 {
		query.Set("skip", strconv.Itoa((page-1)*perSearch))
	}
	if text != "" {
		query.Set("search", text)
	}
	items, total, err := k.list(v, k.path, query)
	h.Items, h.More = items, page*perSearch < total
	return h, err
}

// only returns the choice that the text means: the only one that was found, or the only one that has the text as its
// name, SKU or number.
func (h *hits) only() *choice {
	if len(h.Items) == 1 && !h.More && h.Page == 1 {
		return &h.Items[0]
	}
	return h.named()
}

// named returns the only choice that has the text as its name or SKU.
func (h *hits) named() (one *choice) {
	for i := range h.Items {
		if c := &h.Items[i]; strings.EqualFold(c.Name, h.Text) || strings.EqualFold(c.Key, h.Text) {
			if one != nil {
				return nil
			}
			one = c
		}
	}
	return one
}

// chosen returns the choice with the value, or nil.
func (k *picker) chosen(v *visit, value string) (*choice, error) {
	first, _, _ := strings.Cut(value, " ")
	if k.free {
		first = value
	}
	query, _ := url.ParseQuery(k.one + url.QueryEscape(first))
	items, _, err := k.list(v, k.path, query)
	if e := server.AsError(err); err != nil && e.Status != 422 && e.Status != 404 {
		return nil, err
	}
	for i := range items {
		if strings.EqualFold(items[i].Value, value) {
			return &items[i], nil
		}
	}
	return nil, nil
}

// seek reads the search fields of the pickers in a form that was sent. It sets the values of inputs whose texts mean
// one thing. For others, the page shows the form again, with what was found.
func (v *visit) seek(f *form) {
	asked, page, _ := strings.Cut(f.Values.Get("find"), " ")
	f.Values.Del("find")
	searches, withoutChoice := 0, f.Values.Has("unload") || f.Values.Get("ignore") != "" // see loadSlot and assignLine
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		rest, ok := strings.CutPrefix(name, "find.")
		kind, field, _ := strings.Cut(rest, ".")
		k := pickers[kind]
		if !ok || k == nil || v.Actor.User == "" {
			continue
		}
		text := strings.TrimSpace(f.Values.Get(name))
		f.Values.Del(name)
		if withoutChoice || text == "" && field != asked {
			continue
		}
		if field != asked && k.code != nil && k.code(text) != "" { // the API says if it does not exist
			f.Values.Set(field, k.code(text))
			continue
		}
		if searches++; searches > maxSearches {
			f.picking, f.Errors[field], f.hits[field] = true, v.t("Search for it alone."), &hits{Text: text, Page: 1}
			continue
		}
		n := 1
		if field == asked {
			if number, err := strconv.Atoi(page); err == nil && number > 1 && number < 10_000 {
				n = number
			}
		}
		h, err := k.search(v, text, n)
		if err != nil {
			f.picking = true
			if problem := server.AsError(err); problem.Status == 422 {
				f.Errors[field], f.hits[field] = v.message(problem.Detail), &hits{Text: text, Page: 1}
			} else {
				f.failed = err
			}
			continue
		}
		if field == asked {
			f.picking, f.hits[field] = true, h
			continue
		}
		one := h.only()
		if k.free {
			one = h.named()
		}
		switch {
		case one != nil:
			f.Values.Set(field, one.Value)
		case k.free:
			f.Values.Set(field, text)
		default:
			f.picking, f.hits[field] = true, h
			f.Errors[field] = v.t("Choose one of these.")
			if len(h.Items) == 0 {
				f.Errors[field] = v.t("Nothing matches %q.", text)
			}
		}
	}
	v.isFinding = f.picking && len(f.Errors) == 0
}

// showChoices answers the script of a picker: it returns what the text in the address finds.
func showChoices(v *visit) error {
	k := pickers[v.r.PathValue("kind")]
	if k == nil {
		return server.ErrNotFound
	}
	query := v.r.URL.Query()
	page, err := strconv.Atoi(cmp.Or(query.Get("page"), "1"))
	if err != nil || page < 1 || page > 10_000 {
		return server.ErrNotFound
	}
	h, err := k.search(v, strings.TrimSpace(query.Get("search")), page)
	if err != nil {
		return err
	}
	var list rows
	for _, c := range h.Items {
		list.add(`<li role="option" data-value="{}" data-name="{}">`, c.Value, c.Name)
		c.write(&list)
		list.add(`</li>`)
	}
	list.when(h.More, `<li hidden data-next="{}"></li>`, strconv.Itoa(page+1))
	server.SendPage(v.w, v.r, 200, []byte(list.html()))
	return nil
}

// write writes the HTML that shows the choice.
func (c *choice) write(list *rows) {
	list.picture(c.Sign)
	list.add(`<span><b>{}</b>`, c.Name)
	list.some(` <small>{}</small>`, c.About)
	list.add(`</span>`)
}

// Search returns the text in the search field of a picker.
func (i input) Search() string {
	if h := i.Form.hits[i.Name]; h != nil {
		return h.Text
	}
	return ""
}

// Choices returns the HTML of the choices of a picker: what was found, what is chosen, and nothing.
func (i input) Choices() template.HTML {
	var list rows
	v := i.Form.read.visit
	list.add(`<button class="plain" name="find" value="{}" formnovalidate>{}<span class="hide"> {}</span></button>`,
		i.Name, v.t("Find"), i.Label)
	current, h := i.Value(), i.Form.hits[i.Name]
	var shown []choice
	if h != nil {
		shown = h.Items
	}
	isFound := func(c choice) bool { return strings.EqualFold(c.Value, current) }
	if current != "" && !slices.ContainsFunc(shown, isFound) {
		shown = append([]choice{i.chosen(current)}, shown...)
	}
	if len(shown) > 0 {
		list.add(`<ul class="choices" role="radiogroup" aria-label="{}">`, i.Label)
		for _, c := range append(shown, choice{Name: cmp.Or(i.None, v.t("None of these"))}) {
			list.add(`<li><label><input type="radio" name="{}" value="{}" data-name="{}"`, i.Name, c.Value, c.Name)
			list.when(strings.EqualFold(c.Value, current), ` checked`)
			list.add(`>`)
			c.write(&list)
			list.add(`</label></li>`)
		}
		list.add(`</ul>`)
	}
	if h != nil && h.More {
		list.add(`<button class="plain" name="find" value="{} {}" formnovalidate>{}<span class="hide"> {}</span></button>`,
			i.Name, strconv.Itoa(h.Page+1), v.t("More"), i.Label)
	}
	list.add(`<input type="hidden" name="{}" value="">`, i.Name) // after the choices: see form.value
	return list.html()
}

// chosen returns the choice with the value, also if it cannot be found.
func (i input) chosen(value string) choice {
	if i.Named == "" && i.Form.read.visit != nil {
		switch c, err := pickers[i.Kind].chosen(i.Form.read.visit, value); {
		case err != nil:
			return choice{Value: value, Name: i.Form.read.visit.t("As chosen before")}
		case c != nil:
			return *c
		}
	}
	name := i.Named
	if name == "" {
		name = i.Form.read.visit.t("Removed")
		if !isID(value) {
			name = value
		}
	}
	return choice{Value: value, Name: name}
}

// isID reports whether a value begins with the id of a thing.
func isID(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	_, ok := value.ParseID(first)
	return ok
}
