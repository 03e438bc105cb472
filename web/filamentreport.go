package web

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value/language"
)

// filamentReport is the page with the filament in stock and its value at the end of a day.
type filamentReport struct {
	To, By  string // as the address of the page has them
	Problem string
	Stock   struct {
		To string
		filamentValue
		Groups int
		Items  []struct {
			Material string `json:"material_type"`
			Color    string
			filamentValue
		}
	}
}

type filamentValue struct {
	Spools   int
	Grams    num
	Unpriced num `json:"unpriced_grams"`
	Value    num `json:"filament_value"`
	Archived num `json:"archived_value"`
}

// Group returns the choice of the field by which the report groups its rows.
func (p *filamentReport) Group(v view) pick {
	return pick{"by", v.t("By|grouped by"), p.By, v.options(reportGroups[:2])}
}

// CSV returns the address of the report as a file.
func (p *filamentReport) CSV() string {
	return "/reports/filament.csv?by=" + url.QueryEscape(p.By) + p.day()
}

func (p *filamentReport) day() string {
	if p.To == "" {
		return ""
	}
	return "&to=" + url.QueryEscape(p.To)
}

// Days returns the links to the report of usual days.
func (p *filamentReport) Days(v view) []option {
	return usualDays(v, "/reports/filament?by="+url.QueryEscape(p.By))
}

func (p *filamentReport) read(v *visit) read {
	asked := v.r.URL.Query()
	p.To, p.By = asked.Get("to"), cmp.Or(asked.Get("by"), "color")
	return get("/api/v1/reports/filament?group_by="+url.QueryEscape(p.By)+p.day(), &p.Stock)
}

func showFilamentReport(v *visit) error {
	p := &filamentReport{}
	status := 200
	err := v.fetch(p.read(v))
	if e := server.AsError(err); err != nil && e.Status == 422 {
		p.Problem, status, err = v.message(e.Detail), 422, nil
	}
	if err != nil {
		return err
	}
	return v.show(status, "filament-report", v.t("Filament in stock"), p)
}

func filamentFile(v *visit) error {
	p := &filamentReport{}
	file, err := v.csvFile("filament-report", v.fetch(p.read(v)))
	if err != nil {
		return err
	}
	file.Write([]string{"material_type", "color", "spools", "grams", "unpriced_grams", "filament_value", "archived_value"})
	for _, row := range p.Stock.Items {
		file.Write([]string{row.Material, row.Color, strconv.Itoa(row.Spools), string(row.Grams), string(row.Unpriced),
			string(row.Value), string(row.Archived)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}

// usualDays returns the links to a report of the stock now and at the end of the last month and year.
func usualDays(v view, path string) []option {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	now := v.Now()
	link := func(name language.Text, day time.Time) option {
		return option{path + separator + "to=" + day.Format(time.DateOnly), v.t(name)}
	}
	return []option{{path, v.t("Now")},
		link("End of last month", time.Date(now.Year(), now.Month(), 0, 0, 0, 0, 0, time.UTC)),
		link("End of last year", time.Date(now.Year(), 1, 0, 0, 0, 0, 0, time.UTC))}
}
