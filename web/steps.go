package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/web/start"
)

// firstSteps are the first steps of a new farm, on Today.
type firstSteps struct {
	*start.Steps
	List []firstStep
	Form *form // the time zone and the currency to confirm

	// GuessesZone is whether the script may replace the time zone in the form by that of the browser, and the currency
	// by that of the time zone.
	GuessesZone bool
}

// firstStep is one of the first steps. Links are the pages on which it is done.
type firstStep struct {
	Done       bool
	Name, What string
	Links      []option
}

// IsPlace reports whether the step is the form of the time zone and the currency.
func (s firstStep) IsPlace() bool { return len(s.Links) == 0 }

// firstSteps returns the steps that the visitor can do, or nil if all of them are done. If place is not nil, it is the
// form that the API has refused.
func (v *visit) firstSteps(place *form) (*firstSteps, error) {
	if !v.CanWrite() {
		return nil, nil
	}
	steps, err := v.site.Start.Shown(v.Actor.Tenant, v.steps), error(nil)
	if !v.isAsked { // Today answers a form
		steps, err = v.site.Start.Steps(db.As(v.r.Context(), v.Actor))
	}
	if err != nil || steps == nil || steps.Hidden || steps.Done() {
		return nil, err
	}
	f := &firstSteps{Steps: steps, List: []firstStep{
		{steps.Filament, v.t("Filament"), v.t("What is on your shelf."), v.options([]word{{"/files", "Import a file"},
			{"/filaments/new", "Choose from the catalog"}, {"/spools/new", "Add by hand"}})},
		{steps.Printer, v.t("A printer"),
			v.t("Connect it on its page: one click creates the settings for its software."),
			v.options([]word{{"/printers/new", "Add a printer"}})},
		{steps.Product, v.t("A product"), v.t("What you print, with the filament that it needs."),
			v.options([]word{{"/products/new", "Add a product"}})}}}
	if v.IsAdmin() {
		f.List = append([]firstStep{{steps.Place, v.t("Time zone and currency"), "", nil}}, f.List...)
		f.List = append(f.List, firstStep{steps.Colleague, v.t("A colleague"), v.t("Send a short link."),
			v.options([]word{{"/settings/users", "Invite somebody"}})})
	}
	if !slices.ContainsFunc(f.List, func(s firstStep) bool { return !s.Done }) {
		return nil, nil
	}
	if f.Form = place; f.Form == nil {
		zone, currency := placeOf(v.r.Header.Get("Accept-Language"))
		if v.TimeZone != "UTC" {
			zone = v.TimeZone
		}
		f.Form = v.newForm()
		f.Form.Values.Set("time_zone", cmp.Or(zone, "UTC"))
		f.Form.Values.Set("currency", currency)
		f.Form.Was = url.Values{"time_zone": {v.TimeZone}, "currency": {v.Currency}}
		f.GuessesZone = v.TimeZone == "UTC"
	}
	return f, nil
}

// places are the usual time zones and the currencies of countries.
var places = map[string][2]string{
	"AT": {"Europe/Vienna", "EUR"}, "AU": {"Australia/Sydney", "AUD"}, "BE": {"Europe/Brussels", "EUR"},
	"BR": {"America/Sao_Paulo", "BRL"}, "CA": {"America/Toronto", "CAD"}, "CH": {"Europe/Zurich", "CHF"},
	"CN": {"Asia/Shanghai", "CNY"}, "CZ": {"Europe/Prague", "CZK"}, "DE": {"Europe/Berlin", "EUR"},
	"DK": {"Europe/Copenhagen", "DKK"}, "ES": {"Europe/Madrid", "EUR"}, "FI": {"Europe/Helsinki", "EUR"},
	"FR": {"Europe/Paris", "EUR"}, "GB": {"Europe/London", "GBP"}, "GR": {"Europe/Athens", "EUR"},
	"HU": {"Europe/Budapest", "HUF"}, "IE": {"Europe/Dublin", "EUR"}, "IN": {"Asia/Kolkata", "INR"},
	"IT": {"Europe/Rome", "EUR"}, "JP": {"Asia/Tokyo", "JPY"}, "KR": {"Asia/Seoul", "KRW"},
	"LU": {"Europe/Luxembourg", "EUR"}, "MX": {"America/Mexico_City", "MXN"}, "NL": {"Europe/Amsterdam", "EUR"},
	"NO": {"Europe/Oslo", "NOK"}, "NZ": {"Pacific/Auckland", "NZD"}, "PL": {"Europe/Warsaw", "PLN"},
	"PT": {"Europe/Lisbon", "EUR"}, "RO": {"Europe/Bucharest", "RON"}, "SE": {"Europe/Stockholm", "SEK"},
	"SG": {"Asia/Singapore", "SGD"}, "SK": {"Europe/Bratislava", "EUR"}, "TR": {"Europe/Istanbul", "TRY"},
	"UA": {"Europe/Kyiv", "UAH"}, "US": {"America/New_York", "USD"}, "ZA": {"Africa/Johannesburg", "ZAR"},
}

// moreZones are further time zones of large countries, with their currencies.
const moreZones = `America/Chicago USD America/Denver USD America/Los_Angeles USD America/Phoenix USD
	America/Detroit USD America/Vancouver CAD America/Edmonton CAD America/Winnipeg CAD America/Halifax CAD
	Australia/Melbourne AUD Australia/Brisbane AUD Australia/Perth AUD Australia/Adelaide AUD Asia/Calcutta INR
	Europe/Kiev UAH Atlantic/Canary EUR`

// Currencies returns the currencies by time zone, as JSON for the script.
func (f *firstSteps) Currencies() string {
	all := map[string]string{}
	for _, place := range places {
		all[place[0]] = place[1]
	}
	for more := strings.Fields(moreZones); len(more) > 0; more = more[2:] {
		all[more[0]] = more[1]
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// homes maps languages to the country with most of their speakers, for languages without a region.
var homes = map[string]string{"cs": "CZ", "da": "DK", "de": "DE", "el": "GR", "es": "ES", "fi": "FI", "fr": "FR",
	"hu": "HU", "it": "IT", "ja": "JP", "ko": "KR", "nb": "NO", "nl": "NL", "pl": "PL", "pt": "PT", "ro": "RO",
	"sk": "SK", "sv": "SE", "tr": "TR", "uk": "UA", "zh": "CN"}

// placeOf guesses a time zone and a currency from an Accept-Language header. They are "" if it names no country.
func placeOf(languages string) (zone, currency string) {
	for language := range strings.SplitSeq(languages, ",") {
		language, _, _ = strings.Cut(strings.TrimSpace(language), ";")
		name, region, _ := strings.Cut(language, "-")
		if _, script, ok := strings.Cut(region, "-"); ok { // such as zh-Hans-CN
			region = script
		}
		if place, ok := places[cmp.Or(strings.ToUpper(region), homes[strings.ToLower(name)])]; ok {
			return place[0], place[1]
		}
	}
	return "", ""
}

// confirmPlace saves the time zone and the currency.
func confirmPlace(v *visit) error {
	f := v.sent()
	ok, err := v.edit(f, "/api/v1/settings", farmFields[:2])
	v.tell(&notice{Text: v.t("The time zone and the currency are saved.")})
	return v.then(ok, err, "/", func() error {
		if len(f.Theirs) == 0 {
			return v.today(422, f)
		}
		now, err := v.formOf("/api/v1/settings") // Today no longer asks
		if err != nil {
			return err
		}
		for name := range now.Values {
			f.show(name, now.Values.Get(name))
		}
		return v.settingsPage(422, &settingsPage{Form: f})
	})
}

func hideSteps(v *visit) error {
	if err := v.site.Start.Hide(db.As(v.r.Context(), v.Actor)); err != nil {
		return err
	}
	return v.redirect("/")
}

// fillSamples fills an empty farm with sample data.
func fillSamples(v *visit) error {
	err := v.site.Start.Fill(db.As(v.r.Context(), v.Actor), func(r start.Request) ([]byte, error) {
		header := http.Header{"Content-Type": {cmp.Or(r.Media, "application/json")}}
		answer := v.call(r.Method, r.Path, header, r.Body)
		return answer.Body, answer.Err()
	})
	if err != nil {
		return err
	}
	v.tell(&notice{Text: v.t("The farm has sample data now."), Next: []option{{"/samples", v.t("Remove it")}}})
	return v.redirect("/")
}

// samplesPage is the page that removes the sample data.
type samplesPage struct{ All, Made, Kept []start.Sample }

var sampleKinds = []struct {
	word
	noun *noun
}{{word{"vendor", "Vendor"}, vendorNoun}, {word{"filament", "Filament"}, filamentNoun},
	{word{"spool", "Spool"}, spoolNoun}, {word{"stock level", "Stock level"}, levelNoun},
	{word{"printer", "Printer"}, printerNoun}, {word{"product", "Product"}, productNoun},
	{word{"order", "Order"}, orderNoun}, {word{"run", "Run"}, runNoun}}

// Name returns the kind and the name of a sample.
func (p *samplesPage) Name(v view, s start.Sample) string {
	for _, k := range sampleKinds {
		if k.Value == s.Kind {
			return v.t(k.Name) + " " + s.Name
		}
	}
	return s.Name
}

// Removed counts the samples that will be removed, by kind.
func (p *samplesPage) Removed(v view) string {
	counts := map[string]int{}
	for _, s := range p.All {
		if s.Fate == "removed" {
			counts[s.Kind]++
		}
	}
	var texts []string
	for _, k := range sampleKinds {
		if n := counts[k.Value]; n > 0 {
			texts = append(texts, v.t(k.noun.count, n))
		}
	}
	return commas(v, texts)
}

func showSamples(v *visit) error {
	all, err := v.site.Start.Samples(db.As(v.r.Context(), v.Actor))
	if err != nil {
		return err
	}
	p := &samplesPage{All: all}
	for _, s := range p.All {
		switch s.Fate {
		case "made":
			p.Made = append(p.Made, s)
		case "kept":
			p.Kept = append(p.Kept, s)
		}
	}
	return v.show(http.StatusOK, "samples", v.t("Sample data"), p)
}

func removeSamples(v *visit) error {
	all, err := v.site.Start.Remove(db.As(v.r.Context(), v.Actor))
	if err != nil {
		return err
	}
	text := v.t("The sample data is removed.")
	var kept []string
	for _, s := range all {
		if s.Fate == "kept" {
			kept = append(kept, s.Name)
		}
	}
	if len(kept) > 0 {
		text += " " + v.t("Your own data uses these, so they stay: %s.", commas(v, kept))
	}
	v.tell(&notice{Text: text})
	return v.redirect("/")
}
