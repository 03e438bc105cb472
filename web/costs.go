package web

import (
	"slices"

	"spoolwright/value/language"
)

// costs contains the costs of a product, a run or an order by part, and the margin that remains of the price or
// revenue. Unknown amounts are "".
type costs struct {
	Cost     num            `json:"cost"` // the cost of a run, or the cost of an order so far
	Expected num            `json:"expected_cost"`
	Full     num            `json:"full_cost"` // the cost of a product
	Parts    map[string]num `json:"cost_parts"`
	Piece    map[string]num `json:"full_cost_parts"`
	Price    num            `json:"selling_price"`
	Net      num            `json:"net_price"` // the price without tax
	Revenue  num            `json:"revenue"`
	Margin   num            `json:"margin"`
	Percent  num            `json:"margin_percent"`
	Unknown  []string       `json:"unknown_parts"`
}

// costRow is an amount with its name. The row of a sum follows the rows of its amounts.
type costRow struct {
	Name   string
	Amount num
	Note   string
	IsSum  bool
}

// costParts are the names of the parts of a cost in tables, and unknownParts those in sentences.
var (
	costParts = []struct {
		name  string
		label language.Text
	}{{"filament", "Filament"}, {"waste", "Waste"}, {"machine", "Machine"}, {"energy", "Energy"},
		{"labour", "Work|labor"}, {"failures", "Failures"}}
	unknownParts = map[string]language.Text{"filament": "filament", "waste": "waste", "machine": "machine",
		"energy": "energy", "labour": "work|labor", "stock": "stock", "failures": "failures", "revenue": "revenue",
		"currency": "currency"}
)

func (c costs) partRows(v translator, parts map[string]num) (rows []costRow) {
	for _, part := range costParts {
		amount, known := parts[part.name]
		row := costRow{Name: v.t(part.label), Amount: amount}
		if slices.Contains(c.Unknown, part.name) {
			row.Note = v.t("unknown")
		}
		if known {
			rows = append(rows, row)
		}
	}
	return rows
}

// sum returns the row of a sum. If a part is unknown, the row notes that the sum is not complete.
func (c costs) sum(v translator, name string, amount num) costRow {
	row := costRow{Name: name, Amount: amount, IsSum: true}
	if len(c.Unknown) > 0 {
		row.Note = v.t("of what is known")
	}
	return row
}

// OfPiece returns the rows of a product, OfRun returns the rows of a run, and OfOrder returns the rows of an order.
func (c costs) OfPiece(v view) []costRow {
	rows := append(c.partRows(v, c.Piece), c.sum(v, v.t("One good piece"), c.Full))
	if c.Price != "" {
		rows = append(rows, costRow{Name: v.t("Selling price"), Amount: c.Price})
		if c.Net != c.Price {
			rows = append(rows, costRow{Name: v.t("Price without tax"), Amount: c.Net})
		}
		rows = append(rows, c.margin(v))
	}
	return rows
}

func (c costs) OfRun(v view) []costRow {
	if c.Parts == nil || c.Cost == "" && len(c.Unknown) == 0 {
		return nil
	}
	return append(c.partRows(v, c.Parts), c.sum(v, v.t("Cost"), c.Cost))
}

func (c costs) OfOrder(v view) []costRow {
	return []costRow{{Name: v.t("Revenue"), Amount: c.Revenue}, {Name: v.t("Cost until now"), Amount: c.Cost},
		{Name: v.t("Expected for the rest"), Amount: c.Expected}, c.margin(v)}
}

func (c costs) margin(v view) costRow {
	row := c.sum(v, v.t("Margin"), c.Margin)
	if c.Percent != "" {
		row.Name = commas(v, []string{row.Name, v.Number(c.Percent, 1) + "\u00a0%"})
	}
	return row
}

// NeedsRates reports whether a rate in the settings would make an unknown part known. The cost of filament follows
// from the prices of spools, that of pieces in stock from their runs, and the revenue from the prices of orders.
func (c costs) NeedsRates() bool {
	return slices.ContainsFunc(c.Unknown, func(name string) bool {
		return name != "filament" && name != "waste" && name != "stock" && name != "revenue" && name != "currency"
	})
}

// Missing returns the names of the unknown parts.
func (c costs) Missing(v translator) string {
	var names []string
	for _, name := range c.Unknown {
		names = append(names, v.t(unknownParts[name]))
	}
	return commas(v, names)
}
