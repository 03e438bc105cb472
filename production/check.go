package production

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Check lists what to do before a run starts, and what has changed since it was planned.
type Check struct {
	Ready bool        `json:"ready" rule:"notNull"`
	Steps []CheckStep `json:"steps" rule:"notNull"`
}

// CheckStep is an action to take before a run starts, or a change since the run was planned.
type CheckStep struct {
	Code      StepCode    `json:"code" rule:"notNull"`
	Detail    string      `json:"detail" rule:"notNull"`
	SpoolID   *value.UUID `json:"spool_id"`
	OrderID   *value.UUID `json:"order_id"`
	ProductID *value.UUID `json:"product_id"`
}

// StepCode is the kind of a CheckStep.
type StepCode string

// The codes of steps.
const (
	runEnded           StepCode = "RUN_ENDED"
	orderCancelled     StepCode = "ORDER_CANCELLED"
	orderReduced       StepCode = "ORDER_REDUCED"
	productRemoved     StepCode = "PRODUCT_REMOVED"
	billChanged        StepCode = "BILL_OF_MATERIALS_CHANGED"
	noPrinter          StepCode = "NO_PRINTER"
	printerUnavailable StepCode = "PRINTER_NOT_AVAILABLE"
	printerBusy        StepCode = "PRINTER_BUSY"
	noMaterials        StepCode = "NO_MATERIALS"
	spoolRemoved       StepCode = "SPOOL_REMOVED"
	spoolChanged       StepCode = "SPOOL_CHANGED"
	materialNotPrinted StepCode = "MATERIAL_NOT_PRINTED"
	tooLittleFilament  StepCode = "TOO_LITTLE_FILAMENT"
	loadSpool          StepCode = "LOAD_SPOOL"
)

// Enum returns all codes.
func (StepCode) Enum() []string {
	return []string{string(runEnded), string(orderCancelled), string(orderReduced), string(productRemoved),
		string(billChanged), string(noPrinter), string(printerUnavailable), string(printerBusy), string(noMaterials),
		string(spoolRemoved), string(spoolChanged), string(materialNotPrinted), string(tooLittleFilament),
		string(loadSpool)}
}

var checkDoc = &server.Doc{
	ID: "getProductionRunCheck", Tag: Tag, Summary: "Check whether a run can start",
	Description: "Lists what to do before the run starts, and what has changed since it was planned:\n\n" +
		"- `ORDER_CANCELLED`: an order that the run prints for is cancelled or removed. `ORDER_REDUCED`: an item of " +
		"an order needs fewer pieces than its runs have produced and plan, or was withdrawn, or its order is done.\n" +
		"- `BILL_OF_MATERIALS_CHANGED`: a piece of a product, with all its components, no longer needs the filament " +
		"and the components that it needed when the product became an item of the pending run or, if that is later, " +
		"when `estimated_weight_grams` of a material of the run was last set. `PRODUCT_REMOVED`: a product is removed.\n" +
		"- `NO_PRINTER`, `PRINTER_NOT_AVAILABLE`: the run has no printer, or the printer is removed, retired or in " +
		"maintenance. `PRINTER_BUSY`: another run is in progress on the printer or, for a pending run, paused.\n" +
		"- `NO_MATERIALS`, `SPOOL_REMOVED`, `SPOOL_CHANGED`, `MATERIAL_NOT_PRINTED`, `TOO_LITTLE_FILAMENT`, " +
		"`LOAD_SPOOL`: the run has no spools; a spool is removed or archived, has changed its material, color or diameter " +
		"since it became a material of the run, has a material or diameter that the printer does not print, has less " +
		"filament than the run still needs from it, or is not in a slot of the printer.\n\n" +
		"`startProductionRun` rejects a run that has ended, and a run whose printer is busy. No other step prevents a " +
		"start; `startProductionRun` returns the steps as `warnings`. `replanProductionRun` replaces a pending run that " +
		"is outdated.",
}

// checked is the state of a run that a check reads.
type checked struct {
	ID        string
	Status    RunStatus
	Deducted  bool
	PrinterID *string `json:"printer_id"`
	Printer   *struct {
		Name, Status string
		Materials    []string
		Diameter     value.Decimal
		Busy         bool
	}
	Items []struct {
		ID, Name string
		Removed  bool
		Order    *orderState
		Bill     *struct{ Planned, Now bill }
	}
	Spools []struct {
		ID         value.UUID
		Number     int64
		Name, Type string
		Gone       bool
		Was, Is    string // filament; Was is "" if it is unknown
		Loaded     bool
		Diameter   value.Decimal
		Remaining  value.Decimal
		Needed     value.Decimal
	}
}

// orderState is the JSON of Orders.State.
type orderState struct {
	ID                          value.UUID `json:"order_id"`
	Reference, Customer, Status string
	Removed, Withdrawn          bool
	Quantity, Produced, Planned int64
}

// detail returns a sentence about the order: with its reference or its customer as the first argument, or one without.
func (o *orderState) detail(named, other language.Text, args ...any) string {
	if name := cmp.Or(o.Reference, o.Customer); name != "" {
		return language.Sprintf(named, append([]any{name}, args...)...)
	}
	return language.Sprintf(other, args...)
}

// bill is the result of the SQL function product_bom.
type bill struct {
	Needs map[string]value.Decimal
	Names map[string]string
}

// checks returns a statement that reads the state of runs for their checks. ids is a SQL query for the ids of the
// runs. The statement returns one row, which readSteps decodes.
func (h handlers) checks(ids string, args ...any) *db.Stmt {
	return db.SQL(`
		with run as materialized (
			select r.* from (`+ids+`) u
			join production_runs r on r.id = u.id and r.hidden_at is null
		), item as materialized (
			select i.* from run r
			join run_items i on i.run_id = r.id
			where r.deducted_at is null and r.status in ('pending', 'in_progress', 'paused')
		), bom as materialized (
			select u.id, u.alone, product_bom(u.id, u.alone)::jsonb as bom
			from (select distinct i.product_id as id, i.parts_from_stock as alone from item i
				where i.planned_bom is not null) u
		), ordered as materialized (
			select u.id, `+h.orders.State("u.id")+` as state
			from (select distinct i.order_item_id as id from item i where i.order_item_id is not null) u
		)
		select coalesce(json_agg(json_build_object('id', r.id, 'status', r.status,
			'deducted', r.deducted_at is not null, 'printer_id', r.printer_id,
			'printer', (select json_build_object('name', p.name, 'status', p.status, 'materials', p.materials,
					'diameter', trim_scale(p.diameter_mm), 'busy', printer_is_busy(p.id, r.id, r.status))
				from printers p where p.id = r.printer_id and p.hidden_at is null),
			'items', (select coalesce(json_agg(json_build_object('id', i.product_id, 'name', p.name,
					'removed', p.hidden_at is not null, 'order', o.state, 'bill', case
						when i.planned_bom::jsonb -> 'needs' <> b.bom -> 'needs'
						then json_build_object('planned', i.planned_bom::jsonb, 'now', b.bom) end) order by i.created_at, i.id), '[]')
				from item i
				join products p on p.id = i.product_id
				left join bom b on b.id = i.product_id and b.alone = i.parts_from_stock
				left join ordered o on o.id = i.order_item_id
				where i.run_id = r.id),
			'spools', (select coalesce(json_agg(json_build_object('id', s.id, 'number', s.number,
					'name', spool_name(s.material_type, s.material_name, s.color, s.brand), 'type', s.material_type,
					'gone', s.hidden_at is not null or s.archived,
					'was', coalesce(m.planned, ''), 'is', spool_filament(s), 'diameter', trim_scale(s.diameter_mm),
					'loaded', exists (select from printer_slots l where l.spool_id = s.id and l.printer_id = r.printer_id),
					'remaining', trim_scale(s.remaining_weight_grams),
					'needed', trim_scale(least(greatest(m.grams - coalesce(u.reported, 0), 0), 999999999)))
					order by s.number), '[]')
				from (select m.spool_id, sum(coalesce(m.actual_weight_grams, m.estimated_weight_grams, 0)) as grams,
						max(m.planned_filament) as planned
					from run_materials m where m.run_id = r.id group by m.spool_id
					having bool_or(m.exchanged_at is null)) m
				join spools s on s.id = m.spool_id
				left join lateral (
					select u.reported from run_use(r.id) u where r.started_at is not null and u.spool_id = m.spool_id
				) u on true)
			)), '[]') as runs
		from run r`, args...)
}

// readSteps returns the steps of each run, by its id. The statement must be the one that checks returned.
func readSteps(s *db.Stmt) (map[string][]CheckStep, error) {
	var read struct{ Runs []checked }
	if err := json.Unmarshal(s.Object(), &read); err != nil {
		return nil, err
	}
	all := make(map[string][]CheckStep, len(read.Runs))
	for i := range read.Runs {
		all[read.Runs[i].ID] = read.Runs[i].steps()
	}
	return all, nil
}

func (h handlers) check(ctx context.Context, r *server.Request[struct{}]) (server.OK[Check], error) {
	checks := h.checks(`select $1::uuid as id`, r.ID("id"))
	if err := h.db.Read(ctx, checks); err != nil {
		return nil, err
	}
	all, err := readSteps(checks)
	if err != nil {
		return nil, err
	}
	steps, ok := all[r.ID("id")]
	if !ok {
		return nil, server.ErrNotFound
	}
	return server.Encode(Check{len(steps) == 0, steps})
}

// steps returns the actions to take before the run starts, and the changes since it was planned.
func (c *checked) steps() []CheckStep {
	steps := []CheckStep{}
	add := func(code StepCode, format language.Text, args ...any) *CheckStep {
		steps = append(steps, CheckStep{Code: code, Detail: language.Sprintf(format, args...)})
		return &steps[len(steps)-1]
	}
	if c.Deducted || slices.Contains([]RunStatus{completed, failed, cancelled}, c.Status) {
		add(runEnded, "The run has ended; create another one")
		return steps
	}
	for i := range c.Items {
		item := &c.Items[i]
		product := (*value.UUID)(&item.ID)
		if o := item.Order; o != nil {
			var step *CheckStep
			switch {
			case o.Removed:
				step = add(orderCancelled, "%s", o.detail("Order %s was removed; nothing needs to be printed for it",
					"The order was removed; nothing needs to be printed for it"))
			case o.Status == "cancelled":
				step = add(orderCancelled, "%s", o.detail("Order %s is cancelled; nothing needs to be printed for it",
					"The order is cancelled; nothing needs to be printed for it"))
			case o.Withdrawn:
				step = add(orderReduced, "%s", o.detail("Order %s no longer needs %s", "The order no longer needs %s",
					item.Name))
			case o.Status == "done":
				step = add(orderReduced, "%s", o.detail("Order %s is done; it needs no more pieces of %s",
					"The order is done; it needs no more pieces of %s", item.Name))
			case o.Produced+o.Planned > o.Quantity:
				step = add(orderReduced, "%s", o.detail(
					"Order %s needs %d of %s, but its runs have made or will make %d",
					"The order needs %d of %s, but its runs have made or will make %d",
					o.Quantity, item.Name, o.Produced+o.Planned))
			}
			if step != nil {
				step.OrderID, step.ProductID = &o.ID, product
			}
		}
		if item.Removed {
			add(productRemoved, "%s was removed from the products", item.Name).ProductID = product
		}
		if item.Bill != nil {
			add(billChanged, "The bill of materials of %s has changed since the run was planned: %s", item.Name,
				item.Bill.Now.since(item.Bill.Planned)).ProductID = product
		}
	}
	at := "a printer"
	switch p := c.Printer; {
	case c.PrinterID == nil:
		add(noPrinter, "Choose a printer for the run")
	case p == nil:
		add(printerUnavailable, "The printer was removed; choose another one")
	default:
		at = p.Name
		if p.Status != "available" {
			add(printerUnavailable, "%s is not available: its status is %s", p.Name, p.Status)
		}
		if p.Busy && c.Status == inProgress {
			add(printerBusy, "Another run is also in progress on %s", p.Name)
		} else if p.Busy {
			add(printerBusy, "Wait until the run in progress on %s has ended", p.Name)
		}
	}
	if len(c.Spools) == 0 {
		add(noMaterials, "Add the spools to print from")
	}
	for i := range c.Spools {
		s := &c.Spools[i]
		switch {
		case s.Gone:
			add(spoolRemoved, "Spool %d, %s, was removed or archived; choose another one", s.Number, s.Name).SpoolID = &s.ID
			continue
		case s.Was != "" && !strings.EqualFold(s.Was, s.Is):
			add(spoolChanged, "Spool %d was %s when it became a material of the run; now it is %s", s.Number, s.Was,
				s.Is).SpoolID = &s.ID
		}
		if c.Printer != nil && len(c.Printer.Materials) > 0 && !slices.Contains(c.Printer.Materials, s.Type) {
			add(materialNotPrinted, "%s does not print %s; choose another printer", at, s.Type).SpoolID = &s.ID
		} else if c.Printer != nil && c.Printer.Diameter != s.Diameter {
			add(materialNotPrinted, "%s prints %s mm filament, but spool %d, %s, has %s mm", at, c.Printer.Diameter, s.Number,
				s.Name, s.Diameter).SpoolID = &s.ID
		}
		if s.Remaining < s.Needed {
			add(tooLittleFilament, "Spool %d, %s, has %s g of the %s g needed", s.Number, s.Name, s.Remaining,
				s.Needed).SpoolID = &s.ID
		}
		if !s.Loaded && c.Printer != nil {
			add(loadSpool, "Load spool %d, %s, into %s", s.Number, s.Name, at).SpoolID = &s.ID
		}
	}
	return steps
}

// since describes how the bill differs from an earlier bill: at most three differences, in the alphabetical order of
// their names.
func (b bill) since(earlier bill) string {
	amount := func(key string, n value.Decimal) string {
		if strings.HasPrefix(key, "{") { // a filament
			return n.String() + " g"
		}
		return n.String() + " ×"
	}
	var all [][2]string
	for key, n := range b.Needs {
		was, ok := earlier.Needs[key]
		switch name := b.Names[key]; {
		case !ok:
			all = append(all, [2]string{name, language.Sprintf("also %s %s", amount(key, n), name)})
		case was != n:
			all = append(all, [2]string{name, language.Sprintf("%s %s instead of %s", amount(key, n), name, amount(key,
				was))})
		}
	}
	for key, n := range earlier.Needs {
		if _, ok := b.Needs[key]; !ok {
			all = append(all, [2]string{earlier.Names[key], language.Sprintf("no longer %s %s", amount(key, n),
				earlier.Names[key])})
		}
	}
	value.Sort(all, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var words []string
	for i, one := range all {
		if i == 3 {
			words = append(words, language.Sprintf("%d more", len(all)-i))
			break
		}
		words = append(words, one[1])
	}
	return strings.Join(words, ", ")
}
