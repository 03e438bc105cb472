package production

import (
	"context"
	"encoding/json"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/value"
)

// ExchangeRequest is the body of exchange.
type ExchangeRequest struct {
	SpoolID     value.Optional[value.UUID]    `json:"spool_id"`
	SpoolNumber value.Optional[int64]         `json:"spool_number" rule:"insteadOf=spool_id,minimum=1,maximum=999999999"`
	Used        value.Optional[value.Decimal] `json:"used_grams" rule:"maximum=1000000"`
	UntilEmpty  value.Optional[bool]          `json:"until_empty" rule:"default=false"`
}

// Check reports a weight next to until_empty.
func (r *ExchangeRequest) Check(problems *server.Problems) {
	if !r.Used.IsNull() && r.UntilEmpty.Or(false) {
		problems.Add("used_grams", "must not be sent with until_empty")
	}
}

// spoolField returns the field in which the request names the spool.
func (r *ExchangeRequest) spoolField() string {
	if r.SpoolNumber.IsNull() {
		return "spool_id"
	}
	return "spool_number"
}

var (
	errSameSpool  = server.BadRequest("SAME_SPOOL", "%s is the spool of the material", "spool_id").On("spool_id")
	errExchanged  = server.BadRequest("MATERIAL_EXCHANGED", "Another spool has already replaced the material")
	errNoExchange = server.BadRequest("RUN_NOT_OPEN",
		"The run is completed, failed or cancelled; use correctProductionRun to change the spools that it used")
)

var exchangeDoc = &server.Doc{
	ID: "exchangeProductionRunMaterial", Tag: Tag, Summary: "Continue with another spool",
	Description: "For a run that has not ended, for example because a spool ran empty. The material keeps its use, and " +
		"the new spool becomes a material with the rest of the estimate. If the first spool is in a slot of the printer " +
		"of the run, or the run has no printer and the spool is in any slot, the new spool takes its place there.\n\n" +
		"The use of the material is `used_grams`; or, with `until_empty`, the grams that printers reported for it plus " +
		"all that remains on the spool; or else the grams that printers report for it. In a run that has not started, " +
		"and for which printers reported nothing, the use is 0. A use that the request states becomes the " +
		"`actual_weight_grams`. As for every material, the grams are deducted when the run ends.\n\n" +
		"The spool must differ from that of the material (`SAME_SPOOL`). A material is exchanged only once " +
		"(`MATERIAL_EXCHANGED`); exchange the material that replaced it.",
	Errors: []*server.Error{errUnknownSpool, errSameSpool, errExchanged, errNoExchange},
}

func (h handlers) exchange(ctx context.Context, r *server.Request[ExchangeRequest]) (server.OK[Run], error) {
	run, id, in := r.ID("id"), r.ID("material_id"), &r.In
	var isOpen, full, exchanged bool
	var printer, spool, next *string
	var state string
	locked := db.SQL(`
		select status in ('pending', 'in_progress', 'paused') and deducted_at is null, printer_id::text,
			run_state(production_runs)::text
		from production_runs where id = $1 and hidden_at is null for no key update`, run).Into(&isOpen, &printer, &state)
	material := db.SQL(`
		select m.spool_id::text, m.exchanged_at is not null from run_materials m
			where m.id = $1 and m.run_id = $2`, id, run).
		Into(&spool, &exchanged)
	named := db.SQL(`select s.id::text from `+namedSpool("$1::uuid", "$2::int")+` s`, in.SpoolID.Arg(),
		in.SpoolNumber.Arg()).Into(&next)
	materials := db.SQL(`
		select m.id, m.spool_id, m.estimated_weight_grams, m.actual_weight_grams, m.cost_per_gram
		from run_materials m where m.run_id = $1 order by m.created_at, m.id limit $2`, run, maxStates)
	reads := []*db.Stmt{printers.LockSlots(), locked, material, materials, named, isFull("run_materials", run, &full)}
	return respond(ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
		return h.db.Decide(ctx, reads, func() ([]*db.Stmt, error) {
			switch {
			case locked.Rows() == 0 || material.Rows() == 0:
				return nil, server.ErrNotFound
			case !isOpen:
				return nil, errNoExchange
			case exchanged:
				return nil, errExchanged
			case named.Rows() == 0:
				return nil, errUnknownSpool.With(in.spoolField()).On(in.spoolField())
			case *next == *spool:
				return nil, errSameSpool.With(in.spoolField()).On(in.spoolField())
			case full:
				return nil, server.TooManyEntries("materials")
			}
			var before []MaterialState
			if err := json.Unmarshal(materials.Array(), &before); err != nil {
				return nil, err
			}
			remembered, err := remember(run, "exchanged", "Material "+id, state, before, nil)
			if err != nil {
				return nil, err
			}
			return append([]*db.Stmt{
				remembered,
				printers.Exchange(printer, *spool, *next),
				db.SQL(`select id from spools where id = $1 for no key update`, *spool), // the remaining weight does not change
				exchange(run, id, *next, in),
			}, stmts...), nil
		})
	}, run)
}

// exchange returns a statement that replaces the spool of a material by another spool. The run and the spool of the
// material must be locked.
func exchange(run, material, next string, in *ExchangeRequest) *db.Stmt {
	return db.SQL(`
		with used as materialized (
			select m.*, coalesce(m.stated, m.actual_weight_grams, m.reported, 0) as grams
			from (
				select m.estimated_weight_grams, m.actual_weight_grams, u.reported,
					case when $4 then least(coalesce(u.reported, 0) + s.remaining_weight_grams, 1000000)
						when $5::numeric is not null then $5::numeric
						when r.started_at is null and u.reported is null and m.actual_weight_grams is null then 0 end as stated
				from production_runs r
				join run_materials m on m.run_id = r.id and m.id = $2
				join spools s on s.id = m.spool_id
				cross join material_reported(r.id, m.spool_id, m.id) u (reported)
				where r.id = $1
			) m
		), kept as (
			update run_materials m set exchanged_at = now(), sent_actual_grams = coalesce(u.stated, m.sent_actual_grams),
				spool_weight_before_grams = case when u.stated is null then m.spool_weight_before_grams end,
				spool_weight_after_grams = case when u.stated is null then m.spool_weight_after_grams end,
				estimated_weight_grams = case when m.estimated_weight_grams > u.grams then u.grams
					else m.estimated_weight_grams end
			from used u
			where m.id = $2
		), added as (
			insert into run_materials (id, run_id, spool_id, estimated_weight_grams, cost_per_gram, planned_filament)
			select $6::uuid, $1::uuid, s.id, case when u.estimated_weight_grams is not null
				then greatest(u.estimated_weight_grams - u.grams, 0) end, s.cost_per_gram, spool_filament(s)
			from used u, spools s where s.id = $3
		)
		update production_runs set updated_at = now() where id = $1`, run, material, next, in.UntilEmpty.Or(false),
		in.Used.Arg(), value.NewID())
}
