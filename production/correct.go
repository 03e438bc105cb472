package production

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// CorrectRequest is the body of correct.
type CorrectRequest struct {
	Materials []CorrectedMaterial             `json:"materials"`
	Items     []CompleteItem                  `json:"items"`
	StartedAt value.Optional[value.Timestamp] `json:"started_at"`
	EndTime
	Reason value.Optional[string] `json:"reason" rule:"maxLength=10000"`
}

// CorrectedMaterial corrects the used weight of a material, its spool or its price.
type CorrectedMaterial struct {
	MaterialName
	ActualWeight  value.Optional[value.Decimal] `json:"actual_weight_grams" rule:"maximum=1000000"`
	ToSpoolID     value.Optional[value.UUID]    `json:"to_spool_id"`
	ToSpoolNumber value.Optional[int64]         `json:"to_spool_number" rule:"insteadOf=to_spool_id,optional,minimum=1,maximum=999999999"`
	CostPerGram   value.Optional[value.Decimal] `json:"cost_per_gram" rule:"maximum=999999999"`
	Earlier       value.Optional[bool]          `json:"before_weighing" rule:"default=false"`
}

// Check reports a material without anything to correct.
func (m *CorrectedMaterial) Check(problems *server.Problems) {
	if m.ActualWeight.IsNull() && m.ToSpoolID.IsNull() && m.ToSpoolNumber.IsNull() && !m.CostPerGram.Set {
		problems.Add("actual_weight_grams", "is required without to_spool_id, to_spool_number and cost_per_gram")
	}
}

var correctDoc = &server.Doc{
	ID: "correctProductionRun", Tag: Tag, Summary: "Correct a run that has ended",
	Description: "Changes the end that `completeProductionRun`, `failProductionRun` or `cancelProductionRun` recorded. " +
		"The correction applies completely or not at all, and can be repeated. Values that the request omits stay. " +
		"Afterwards, everything is as if the run had ended with the new values:\n\n" +
		"- The usage ledger of each spool gets an entry with the difference, with the same kind and run as the entries of " +
		"the end. If a spool has less filament than that, it becomes empty, and the entry has `shortfall_grams`. A spool " +
		"can get back more than its `net_weight_grams`.\n" +
		"- `actual_weight_grams` counts as entered by a person; late reports of printers no longer change it. It replaces " +
		"the weights of the spool before and after printing.\n" +
		"- `to_spool_id` or `to_spool_number`: the material used another spool, at the current price of that spool unless " +
		"the request has `cost_per_gram`. If printers have reported the first spool for the run, it stays a material with " +
		"0 g.\n" +
		"- The costs follow from the prices stored with the run, or from `cost_per_gram`; `null` is the current price of " +
		"the spool. A price that was unknown at the end is replaced by the current one.\n" +
		"- The status of an order follows from its pieces: it can become `done`, and one that was `done` because of the " +
		"run `in_production`. The hours of the printer, stock levels and all reports follow.\n\n" +
		"The rules for `started_at`, `completed_at` and `actual_print_time_hours` are those of the end: the run and all " +
		"entries of its ledgers are counted on the new day. If the hours were the time from the start to the end, they " +
		"are computed again unless the request has them; other hours stay. `null` as `actual_print_time_hours` is that " +
		"time, and `null` as `completed_at` is the time of the request that ended the run. `updateProductionRun` with " +
		"one of these fields has the same effect.\n\n" +
		"The difference counts as used when the run ended. If the spool was weighed after that, or its remaining weight " +
		"was edited, it keeps its weight: a second entry, whose `balances_id` names the first, balances the grams at the " +
		"weighing. If the spool was weighed during the run, additional use is taken from it as use after the weighing " +
		"(`WEIGHED_DURING_RUN`), unless the material has `before_weighing`.\n\n" +
		"`warnings` are those of `completeProductionRun`. A run that has not ended cannot be corrected " +
		"(`RUN_NOT_ENDED`); its fields, items and materials can be changed. `listProductionRunHistory` keeps what " +
		"was before.",
	Errors: []*server.Error{errNotEnded, errNotInRun, errUnknownSpool.On("materials[0].to_spool_id")},
}

func (h handlers) correct(ctx context.Context, r *server.Request[CorrectRequest]) (server.OK[Run], error) {
	id := r.ID("id")
	c := correction{materials: r.In.Materials, ending: ending{changesEnd: true, why: r.In.Reason.Arg(), items: r.In.Items,
		started: r.In.StartedAt, EndTime: r.In.EndTime}}
	for i, m := range r.In.Materials {
		c.grams = append(c.grams, sentGrams{MaterialName: m.MaterialName,
			field: fmt.Sprintf("materials[%d].actual_weight_grams", i), grams: m.ActualWeight.Value,
			earlier: m.Earlier.Or(false)})
	}
	reads := c.reads(h, id)
	return respondWith(ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
		return h.db.Decide(ctx, reads, func() ([]*db.Stmt, error) {
			if err := c.read.read(); err != nil {
				return nil, err
			}
			writes, err := c.writes(h, id)
			return append(writes, stmts...), err
		})
	}, id, stateColumns, func() ([]CheckStep, error) { return c.steps(), nil })
}

// correction is a change of the end of a run.
type correction struct {
	ending
	materials []CorrectedMaterial // with the same indexes as grams

	read     reading
	spools   *db.Stmt // the spools that the request names, and the spools of the run
	warnings []EndWarning
	balances string // the result of catalog.Balanced
}

// reads returns the statements that lock the run, the spools and the orders, and read them.
func (c *correction) reads(h handlers, id string) []*db.Stmt {
	reads := c.read.reads(id, &c.ending, "production_run.corrected")
	var ids []string
	var numbers []int64
	for _, m := range c.materials {
		switch {
		case !m.ToSpoolID.IsNull():
			ids = append(ids, string(*m.ToSpoolID.Value))
		case !m.ToSpoolNumber.IsNull():
			numbers = append(numbers, *m.ToSpoolNumber.Value)
		}
	}
	if ids != nil || numbers != nil {
		c.spools = db.SQL(`
			select s.*, coalesce(u.short, 0) as short_grams, coalesce(u.grams, 0) as recorded_grams,
				coalesce(u.taken, 0) as taken_grams, `+weighings+`
			from (
				select u.id from (
					select m.spool_id as id from run_materials m where m.run_id = $1
					union
					select t.id from unnest($2::uuid[]) t (id)
					union
					select s.id from spools s where s.number = any ($3::int[])
				) u
				order by u.id
			) m
			cross join lateral (select `+endingSpool+` from spools where id = m.id for no key update) s
			cross join `+c.ends(4)+` r`+joinWeighings("s.spool_id")+`
			left join run_use($1) u on u.spool_id = s.spool_id`, append([]any{id, ids, numbers}, c.endsArgs()...)...)
		reads = slices.Insert(reads, 1, c.spools)
	}
	return append(reads, h.orders.Lock(id))
}

// writes returns the statements that correct the run. The statements of reads must have run before.
func (c *correction) writes(h handlers, id string) ([]*db.Stmt, error) {
	run := &c.read.run
	if c.status, c.kind = run.status, "wasted"; c.status == completed {
		c.kind = "run"
	}
	var err error
	if c.read.before, err = c.read.remember(id, "corrected", c.why); err != nil {
		return nil, err
	}
	if err := c.check(run); err != nil {
		return nil, err
	}
	if err := c.apply(); err != nil {
		return nil, err
	}
	deductions, warnings, err := c.deductions(run.materials)
	if err != nil {
		return nil, err
	}
	c.warnings = warnings
	var completedAt time.Time
	writes := h.write(id, &c.ending, &c.read, deductions, "production_run.corrected", &completedAt)
	return append(writes, h.orders.Follow(id), h.orders.Settle(id), catalog.Balanced(id).Into(&c.balances)), nil
}

// apply applies the request to the materials that the statements of reads returned.
func (c *correction) apply() error {
	var spools []endingMaterial
	if c.spools != nil {
		if err := json.Unmarshal(c.spools.Array(), &spools); err != nil {
			return err
		}
	}
	all := c.read.run.materials
	var unknown []string
	for i, sent := range c.materials {
		m := &all[slices.IndexFunc(all, func(m endingMaterial) bool { return m.ID == c.grams[i].material })]
		if !sent.ActualWeight.IsNull() {
			m.unweighed = m.Weighed
			m.Weighed = false
		}
		if sent.CostPerGram.Set {
			m.repriced, m.price = true, sent.CostPerGram.Value
		}
		field := "to_spool_id"
		if !sent.ToSpoolNumber.IsNull() {
			field = "to_spool_number"
		} else if sent.ToSpoolID.IsNull() {
			continue
		}
		n := slices.IndexFunc(spools, func(s endingMaterial) bool {
			return value.UUID(s.SpoolID) == sent.ToSpoolID.Or(value.UUID(s.SpoolID)) &&
				s.SpoolNumber == sent.ToSpoolNumber.Or(s.SpoolNumber)
		})
		switch {
		case n < 0 || spools[n].Hidden && spools[n].SpoolID != m.SpoolID:
			unknown = append(unknown, fmt.Sprintf("materials[%d].%s", i, field))
		case spools[n].SpoolID != m.SpoolID:
			all = move(all, m, spools[n])
		}
	}
	if unknown != nil {
		return errUnknownSpool.With(server.JoinFields(unknown)).On(unknown...)
	}
	value.Sort(all, func(a, b endingMaterial) int { return cmp.Compare(a.SpoolID, b.SpoolID) })
	c.read.run.materials = all
	return nil
}

// move gives a material another spool. Another material of the run with the old spool then gets the reported and
// counted grams of the old spool. Without such a material, move adds a material of 0 g for the old spool.
func move(all []endingMaterial, m *endingMaterial, to endingMaterial) []endingMaterial {
	rest := *m
	rest.ID, rest.left, rest.Actual, rest.ActualReported = value.NewID(), true, new(value.Decimal), false
	rest.Weighed, rest.unweighed, rest.moved, rest.repriced = false, false, false, false
	m.SpoolID, m.SpoolNumber, m.SpoolName, m.Remaining = to.SpoolID, to.SpoolNumber, to.SpoolName, to.Remaining
	m.Hidden, m.Archived, m.Short, m.Recorded, m.Taken = to.Hidden, to.Archived, to.Short, to.Recorded, to.Taken
	m.AfterEnd, m.AfterEnded, m.Own = to.AfterEnd, to.AfterEnded, to.Own
	m.Reported, m.ActualReported, m.Counted, m.Corrections = nil, false, 0, 0
	m.unweighed, m.Weighed, m.moved = m.unweighed || m.Weighed, false, true
	m.repriced = true // m.price is the price in the request, or nil for the price of the spool
	for i := range all {
		other := &all[i]
		if other != m && other.SpoolID == rest.SpoolID {
			other.Counted, other.Corrections = other.Counted+rest.Counted, other.Corrections+rest.Corrections
			if rest.Reported != nil {
				reported := value.OrZero(other.Reported) + *rest.Reported
				other.Reported = &reported
			}
			return all
		}
	}
	return append(all, rest)
}

// steps returns the warnings in the form of a run's warnings.
func (c *correction) steps() []CheckStep {
	return steps(append(c.warnings, countedSince(c.balances)...))
}

// changes drops the times and hours of the request that equal those of the run, and reports whether any remain.
func (c *correction) changes() bool {
	run := &c.read.run
	same := func(sent value.Optional[value.Timestamp], has *time.Time) bool {
		return sent.IsNull() && has == nil || !sent.IsNull() && has != nil && sent.Value.Equal(*has)
	}
	if same(c.started, run.started) {
		c.started.Set = false
	}
	if same(c.CompletedAt, run.ended) {
		c.CompletedAt = value.Optional[value.Timestamp]{}
	}
	if c.Hours.IsNull() && run.hours == nil || !c.Hours.IsNull() && run.hours != nil &&
		c.Hours.Value.String() == *run.hours {
		c.Hours = value.Optional[value.Decimal]{}
	}
	if !c.started.Set && !c.CompletedAt.Set {
		run.early, run.future = false, false
	}
	return c.started.Set || c.CompletedAt.Set || c.Hours.Set
}
