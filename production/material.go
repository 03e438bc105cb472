package production

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// RunMaterial is a spool that a run prints from.
type RunMaterial struct {
	ID              value.UUID                    `json:"id" rule:"readOnly,notNull"`
	SpoolID         value.Optional[value.UUID]    `json:"spool_id" rule:"notNull"`
	SpoolNumber     value.Optional[int64]         `json:"spool_number" rule:"writeOnly,notNull,insteadOf=spool_id,minimum=1,maximum=999999999"`
	SpoolName       string                        `json:"spool_name" rule:"readOnly,notNull"`
	EstimatedWeight value.Optional[value.Decimal] `json:"estimated_weight_grams" rule:"maximum=1000000"`
	ActualWeight    value.Optional[value.Decimal] `json:"actual_weight_grams" rule:"maximum=1000000"`
	WeightBefore    value.Optional[value.Decimal] `json:"spool_weight_before_grams" rule:"maximum=1000000"`
	WeightAfter     value.Optional[value.Decimal] `json:"spool_weight_after_grams" rule:"maximum=1000000"`
	EstimatedPurge  value.Optional[value.Decimal] `json:"estimated_purge_grams" rule:"maximum=1000000"`
	ActualPurge     value.Optional[value.Decimal] `json:"actual_purge_grams" rule:"maximum=1000000"`
	CostPerGram     value.Optional[value.Decimal] `json:"cost_per_gram" rule:"maximum=999999999"`
	Reported        value.Decimal                 `json:"reported_grams" rule:"readOnly"`
	Outside         value.Decimal                 `json:"outside_grams" rule:"readOnly"`
	ActualReported  bool                          `json:"actual_reported" rule:"readOnly,notNull"`
	ExchangedAt     value.Timestamp               `json:"exchanged_at" rule:"readOnly"`
	WeighedAt       value.Timestamp               `json:"weighed_at" rule:"readOnly"`
}

// errUnknownSpool returns the error for a material whose spool does not exist.
func (m *RunMaterial) errUnknownSpool() error {
	return errUnknownSpool.With(m.spoolField()).On(m.spoolField())
}

// spoolField returns the name of the field that names the spool.
func (m *RunMaterial) spoolField() string {
	if m.SpoolNumber.IsNull() {
		return "spool_id"
	}
	return "spool_number"
}

// namedSpool returns a subquery for the spool that has the id or, if the id is null, the number. Hidden spools do
// not count.
func namedSpool(id, number string) string {
	return `(
				(select s.*, spool_filament(s) as filament from spools s
					where s.id = ` + id + ` and s.hidden_at is null)
				union all
				(select s.*, spool_filament(s) as filament from spools s
					where ` + id + ` is null and s.number = ` + number + ` and s.hidden_at is null)
			)`
}

const materialColumns = `m.id, m.spool_id,
	spool_name(s.material_type, s.material_name, s.color, s.brand) as spool_name,
	m.estimated_weight_grams, m.actual_weight_grams, m.spool_weight_before_grams, m.spool_weight_after_grams,
	m.estimated_purge_grams, m.actual_purge_grams, m.cost_per_gram,
	material_reported(m.run_id, m.spool_id, m.id) as reported_grams,
	material_outside(m.run_id, m.spool_id, m.id) as outside_grams, m.actual_reported,
	m.exchanged_at, material_weighed(m.run_id, m.spool_id) as weighed_at`

var (
	errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "product_id").
				On("product_id")
	errUnknownSpool = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a spool", "spool_id").On("spool_id")

	errUnknownOrderItem = server.BadRequest("UNKNOWN_REFERENCE", "order_item_id is not the id of an item of an order").
				On("order_item_id")
)

const actualWeightRule = "Send either `actual_weight_grams`, as a slicer or printer reports it, or the weights of " +
	"the spool before and after printing. If both weights are set, `actual_weight_grams` is their difference, and " +
	"a value that was sent has no effect until one of the weights is cleared."

var addMaterialDoc = &server.Doc{
	ID: "addProductionRunMaterial", Tag: Tag, Summary: "Add a spool to a run",
	Description: "The default of `cost_per_gram` is the current value of the spool, and does not change later. A spool " +
		"may be added more than once.\n\n" + actualWeightRule,
	Errors: []*server.Error{errUnknownSpool, errCompleted},
}

func (h handlers) addMaterial(
	ctx context.Context, r *server.Request[RunMaterial],
) (server.Created[RunMaterial], error) {
	id, run, in := value.NewID(), r.ID("id"), &r.In
	material := db.SQL(`
		with run as (
			select id from production_runs where id = $2 and hidden_at is null and deducted_at is null
		), changed as (
			insert into run_materials (id, run_id, spool_id, estimated_weight_grams,
				spool_weight_before_grams, spool_weight_after_grams, sent_actual_grams,
				estimated_purge_grams, actual_purge_grams, cost_per_gram, planned_filament)
			select $1::uuid, run.id, s.id, $4::numeric, $5::numeric, $6::numeric, $7::numeric, $8::numeric, $9::numeric,
				coalesce($10::numeric, s.cost_per_gram), s.filament
			from run cross join lateral `+namedSpool("$3::uuid", "$12::int")+` s
			where (select count(*) from run_materials other where other.run_id = $2) < $11
			returning *
		), `+touched+`
		select `+materialColumns+` from changed m join spools s on s.id = m.spool_id`,
		id, run, in.SpoolID.Arg(), in.EstimatedWeight.Arg(), in.WeightBefore.Arg(), in.WeightAfter.Arg(),
		in.ActualWeight.Arg(), in.EstimatedPurge.Arg(), in.ActualPurge.Arg(), in.CostPerGram.Arg(),
		server.MaxEntries, in.SpoolNumber.Arg())
	var completed, full bool
	locked := lockRun(run).Into(&completed)
	statements := []*db.Stmt{locked, isFull("run_materials", run, &full), material}
	if !in.EstimatedWeight.IsNull() {
		statements = append(statements, replanned(run))
	}
	err := h.db.Write(ctx, statements...)
	switch {
	case err != nil:
		return nil, materialError(err)
	case material.Rows() == 1:
		return material.Object(), nil
	case locked.Rows() == 0:
		return nil, server.ErrNotFound
	case full:
		return nil, server.TooManyEntries("materials")
	case completed:
		return nil, errCompleted
	}
	return nil, in.errUnknownSpool()
}

// materialRows returns the materials as an argument for json_to_recordset, with new ids.
func materialRows(materials []RunMaterial) string {
	rows := make([]map[string]any, len(materials))
	for i, m := range materials {
		rows[i] = map[string]any{"id": value.NewID(), "spool_id": m.SpoolID.Arg(),
			"spool_number":           m.SpoolNumber.Arg(),
			"estimated_weight_grams": m.EstimatedWeight.Arg(), "sent_actual_grams": m.ActualWeight.Arg(),
			"spool_weight_before_grams": m.WeightBefore.Arg(), "spool_weight_after_grams": m.WeightAfter.Arg(),
			"estimated_purge_grams": m.EstimatedPurge.Arg(), "actual_purge_grams": m.ActualPurge.Arg(),
			"cost_per_gram": m.CostPerGram.Arg()}
	}
	return db.Recordset(rows)
}

var updateMaterialDoc = &server.Doc{
	ID: "updateProductionRunMaterial", Tag: Tag, Summary: "Update a material of a run",
	Description: "Records how much filament the run used. " + actualWeightRule + "\n\n" +
		"After `complete`, a material cannot change; a request with its current values succeeds.",
	Errors: []*server.Error{errUnknownSpool, errReported, errCompleted},
}

// errReported is the error of a change that would remove a spool from a run although printers reported its use.
var errReported = server.Conflict("MATERIAL_REPORTED",
	"Printers reported use of the spool for the run, so the run keeps the spool as a material; its actual weight may "+
		"be 0").On("spool_id")

// unreported is a SQL condition: no printer has reported use of the material m's spool for its run, or another
// material of the run has the same spool. The run must be locked.
const unreported = `(not exists (
		select from spool_usage u where u.run_id = m.run_id and u.spool_id = m.spool_id and u.kind = 'printed')
	or exists (select from run_materials o where o.run_id = m.run_id and o.spool_id = m.spool_id and o.id <> m.id))`

func (h handlers) updateMaterial(ctx context.Context, r *server.Request[RunMaterial]) (server.OK[RunMaterial], error) {
	run, id, in := r.ID("id"), r.ID("material_id"), &r.In
	material := db.SQL(`
		select `+materialColumns+` from run_materials m join spools s on s.id = m.spool_id
		where m.id = $1 and m.run_id = $2 and `+visibleRun, id, run)
	set, args := server.Assignments(in, []any{id, run})
	if set == "" && !in.SpoolNumber.Set {
		if err := h.db.Read(ctx, material); err != nil {
			return nil, err
		}
	} else {
		known := "" // a removed spool is allowed only if the material has it already
		if in.SpoolID.Set {
			args = append(args, in.SpoolID.Arg())
			known = fmt.Sprintf(` and (spool_id = $%d or
				exists (select from spools s where s.id = $%[1]d and s.hidden_at is null))`, len(args))
		}
		unchanged := server.Unchanged(set)
		if in.SpoolNumber.Set {
			args = append(args, in.SpoolNumber.Arg())
			spool := fmt.Sprintf(`(select s.id from spools s where s.number = $%d and s.hidden_at is null)`, len(args))
			set = strings.TrimPrefix(set+", spool_id = "+spool, ", ")
			unchanged = strings.TrimPrefix(unchanged+" and spool_id = "+spool, " and ")
			known = " and " + spool + " is not null"
		}
		keeps := "true"
		if in.SpoolID.Set {
			keeps = fmt.Sprintf("(m.spool_id = $%d or %s)", len(args), unreported)
		} else if in.SpoolNumber.Set {
			keeps = fmt.Sprintf("(%s or m.spool_id = (select s.id from spools s where s.number = $%d))", unreported, len(args))
		}
		if in.SpoolID.Set || in.SpoolNumber.Set {
			spool := fmt.Sprintf("s.id = $%d", len(args))
			if in.SpoolNumber.Set {
				spool = fmt.Sprintf("s.number = $%d and s.hidden_at is null", len(args))
			}
			set += `, planned_filament = (select spool_filament(s) from spools s where ` + spool + `)`
		}
		// actual_weight_grams is a generated column. It is computed from sent_actual_grams and both weights of the
		// spool.
		set = strings.Replace(set, "actual_weight_grams = ", "sent_actual_grams = ", 1)
		update := db.SQL(`
			with changed as (
				update run_materials m set `+set+` from production_runs run
				where m.id = $1 and m.run_id = $2 and run.id = $2 and run.hidden_at is null
					and (run.deducted_at is null or `+unchanged+`)`+known+` and `+keeps+`
				returning m.run_id
			), `+touched+`
			select run_id from changed`, args...)
		var completed bool
		free := true
		locked := lockRun(run).Into(&completed)
		statements := []*db.Stmt{locked}
		if keeps != "true" {
			statements = append(statements, db.SQL(`select `+unreported+` from run_materials m where m.id = $1`, id).
				Into(&free))
		}
		statements = append(statements, update, material)
		if in.EstimatedWeight.Set {
			statements = append(statements, replanned(run))
		}
		err := h.db.Write(ctx, statements...)
		switch {
		case err != nil:
			return nil, materialError(err)
		case update.Rows() == 1:
		case locked.Rows() == 0 || material.Rows() == 0:
			return nil, server.ErrNotFound
		case completed:
			return nil, errCompleted
		case !free:
			return nil, errReported.On(in.spoolField())
		default:
			return nil, in.errUnknownSpool()
		}
	}
	return server.One(material, nil)
}

const afterExceedsBefore = "must not be more than spool_weight_before_grams"

// materialError returns the field error for the violation of a constraint of run_materials.
func materialError(err error) error {
	if db.Violates(err, "run_materials_weighed") || errors.Is(err, db.ErrOutOfRange) {
		return server.Invalid("spool_weight_after_grams", afterExceedsBefore).Because(err)
	}
	return err
}

var deleteMaterialDoc = &server.Doc{
	ID: "removeProductionRunMaterial", Tag: Tag, Summary: "Remove a material from a run",
	Description: "The spool does not change. A material cannot be removed after `complete`. While the run is open, the " +
		"last material of a spool that printers reported for the run cannot be removed either.",
	Errors: []*server.Error{errReported.On(), errCompleted},
}

func (h handlers) deleteMaterial(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	run, id := r.ID("id"), r.ID("material_id")
	material := db.SQL(`select id from run_materials where id = $1 and run_id = $2 and `+visibleRun, id, run)
	deleted := db.SQL(`
		with changed as (
			delete from run_materials m using production_runs run
			where m.id = $1 and m.run_id = $2 and run.id = $2 and run.deducted_at is null and run.hidden_at is null
				and `+unreported+`
			returning m.run_id
		), `+touched+`
		select run_id from changed`, id, run)
	var completed bool
	err := server.Found(material, h.db.Write(ctx, lockRun(run).Into(&completed), material, deleted))
	if err == nil && deleted.Rows() == 0 {
		if !completed {
			return nil, errReported.On()
		}
		err = errCompleted
	}
	return nil, err
}

// Check reports a weight after printing that exceeds the weight before, if the request has both.
func (m *RunMaterial) Check(problems *server.Problems) {
	if !m.WeightBefore.IsNull() && !m.WeightAfter.IsNull() && *m.WeightAfter.Value > *m.WeightBefore.Value {
		problems.Add("spool_weight_after_grams", afterExceedsBefore)
	}
}
