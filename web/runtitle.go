package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/value/language"
)

// translator is a visit or a view: methods that templates call with the view get texts from it.
type translator interface {
	t(text language.Text, args ...any) string
}

// listedItem is a product that a run prints, as lists of runs have it.
type listedItem struct {
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Picture   string `json:"picture_version"`
	Quantity  num
}

// thumb returns the picture of a product beside its name, or "" if it has none.
func thumb(product, version string) template.HTML {
	if version == "" {
		return ""
	}
	var r rows
	r.add(`<img class="thumb" src="/products/{}/picture?size=small&amp;version={}" alt="" width="40" height="40" `+
		`loading="lazy"> `, product, version)
	return r.html()
}

// thumbOf returns the picture of the first product that has one, or "".
func thumbOf(items []listedItem) template.HTML {
	for _, item := range items {
		if item.Picture != "" {
			return thumb(item.ProductID, item.Picture)
		}
	}
	return ""
}

// Thumb returns the picture of the product in small.
func (i listedItem) Thumb() template.HTML { return thumb(i.ProductID, i.Picture) }

// listedSpool is a spool that a run prints from, as lists of runs have it.
type listedSpool struct {
	ID       string `json:"spool_id"`
	Number   int64  `json:"spool_number"`
	Spool    string `json:"spool_name"`
	ColorHex string `json:"color_hex"`
}

// Name returns the number and the name of the spool.
func (s listedSpool) Name() string { return numbered(s.Number, s.Spool) }

// numbered returns the name of a spool with its number, if the number is known.
func numbered(number int64, name string) string {
	if number == 0 {
		return name
	}
	return "#" + strconv.FormatInt(number, 10) + " " + name
}

// titleItems is the maximum number of products in the title of a run.
const titleItems = 2

// runTitle returns the products that a run prints, such as "2 × Phone stand", or "" if it prints none. Total is the
// number of all items of the run.
func runTitle(v translator, items []listedItem, total int) string {
	var names []string
	for _, item := range items[:min(len(items), titleItems)] {
		names = append(names, string(item.Quantity)+" × "+item.Product)
	}
	title := commas(v, names)
	if more := total - len(names); more > 0 && title != "" {
		title = v.t("%s and %d more|%s and %d more", title, more)
	}
	return title
}

// shownSwatches is the maximum number of colors that lists show for a run.
const shownSwatches = 4

// swatches returns the pictures of the different colors of spools.
func swatches(spools []listedSpool) template.HTML {
	var pictures []template.HTML
	for _, s := range spools {
		picture := newSwatch(s.Spool, isTranslucent(s.Spool), s.ColorHex)
		if len(pictures) < shownSwatches && !slices.Contains(pictures, picture) {
			pictures = append(pictures, picture)
		}
	}
	if pictures == nil {
		return ""
	}
	var list rows
	list.add(`<span class="swatches">`)
	for _, picture := range pictures {
		list.picture(picture)
	}
	list.add(`</span>`)
	return list.html()
}

// Title returns the name of the run for people: its products, or else its printer.
func (r run) Title(v translator) string {
	return cmp.Or(runTitle(v, r.Items, r.ItemCount), r.Name(v))
}

// Thumb returns the picture of the first product that has one, or "".
func (r run) Thumb() template.HTML { return thumbOf(r.Items) }

// Picture returns the large picture of the first product that has one, or "".
func (r run) Picture() template.HTML {
	for _, item := range r.Items {
		if item.Picture != "" {
			var list rows
			list.add(`<img class="picture" src="/products/{}/picture?version={}" alt="" width="160" height="160">`,
				item.ProductID, item.Picture)
			return list.html()
		}
	}
	return ""
}

// Swatches returns the pictures of the colors of the run's spools.
func (r run) Swatches() template.HTML { return swatches(r.Spools) }

// about returns the printer, unless it is the title, and the order of the run.
func (r run) about() (words []string) {
	if r.ItemCount > 0 && r.PrinterName != "" {
		words = append(words, r.PrinterName)
	}
	if len(r.Orders) > 0 {
		if name := cmp.Or(r.Orders[0].Reference, r.Orders[0].Customer); name != "" {
			words = append(words, name)
		}
	}
	return words
}

// About returns the printer and the order of the run as text.
func (r run) About() string { return strings.Join(r.about(), " · ") }

// Facts returns the state, the printer, the order and the filament of a run as text.
func (v *visit) Facts(r run) string {
	words := append([]string{r.State(v)}, r.about()...)
	if grams := cmp.Or(r.Grams, r.Estimate); grams != "" {
		words = append(words, v.Grams(grams))
	}
	return strings.Join(words, " · ")
}

// share returns the share of the run's estimated time that has passed at a time, from 0 to 1, or -1 if the run has not
// started or the estimate is not known.
func (r run) share(at time.Time) float64 {
	if r.Status != "in_progress" && r.Status != "paused" || r.End() == nil || float(r.Hours) <= 0 {
		return -1
	}
	return max(0, min(1, at.Sub(*r.StartedAt).Hours()/float(r.Hours)))
}

// Progress returns the progress of a run in percent: by its watched printer, or else the elapsed share of its estimated
// time. It returns -1 if the run is not printing or its end is not known.
func (r run) Progress(now time.Time) int {
	switch {
	case r.Print != nil && r.Print.Progress != "":
		return percent(r.Print.Progress, "1")
	case r.Status != "in_progress":
		return -1
	}
	share := r.share(now)
	if share < 0 {
		return -1
	}
	return int(share * 100)
}

// progressBar returns the picture of a progress in percent. Name is its text for people who do not see it.
func progressBar(percent int, name string) template.HTML {
	n := strconv.Itoa(percent)
	return template.HTML(`<svg class="bar progress" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" ` +
		`aria-label="` + template.HTMLEscapeString(name) + `"><rect class="track" width="100" height="4"/>` +
		`<rect class="use" width="` + n + `" height="4"/></svg>`)
}

// Bar returns the picture of the progress of a printing run, or "".
func (r run) Bar(v view) template.HTML {
	percent := r.Progress(v.Now())
	if percent < 0 {
		return ""
	}
	return progressBar(percent, v.t(r.by(), inPercent(percent)))
}

// The texts of a progress for people who do not see its picture.
const (
	byPrinter  language.Text = "%s by the printer"
	byEstimate language.Text = "%s of the estimated time"
)

// by returns the text that says where the progress of the run comes from.
func (r run) by() language.Text {
	if r.Print != nil {
		return byPrinter
	}
	return byEstimate
}

// ring returns the picture in the ring of the run's progress.
func (r run) ring(v view, picture template.HTML) template.HTML {
	percent := r.Progress(v.Now())
	return ring(percent, r.Status, v.t(r.by(), inPercent(percent)), picture)
}

func inPercent(percent int) string { return strconv.Itoa(percent) + " %" }

// ring returns a picture in a ring that shows a progress in percent, in the color of a state. A negative progress is not
// known. Name is the text of the progress for people who do not see it. The ring has a circumference of 100.
func ring(percent int, state, name string, picture template.HTML) template.HTML {
	var r rows
	r.add(`<span class="ring {}"><svg viewBox="2 2 36 36"`, marks[state])
	if percent < 0 {
		r.add(` aria-hidden="true"><circle class="track" cx="20" cy="20" r="15.9155"/></svg>`)
	} else {
		r.add(` role="img" aria-label="{}"><circle class="track" cx="20" cy="20" r="15.9155"/>`, name)
		r.add(`<circle class="use" cx="20" cy="20" r="15.9155" stroke-dasharray="{} 100"/></svg>`,
			strconv.Itoa(percent))
	}
	r.picture(picture)
	r.add(`</span>`)
	return r.html()
}
