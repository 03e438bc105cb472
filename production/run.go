// Package production owns production runs: what is printed, from which spools, and what it took.
package production

import (
	"context"
	"fmt"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

var tag = &server.Tag{Name: "production runs", Description: "Print jobs: planned, printed, weighed, completed. Completing a run deducts what it used from the spools."}

// Routes are the operations of /api/v1/production-runs.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/production-runs", server.Read, server.Handle(h.list), listDoc),
		server.Op("POST /api/v1/production-runs", server.Write, server.Handle(h.create), createDoc),
		server.Op("GET /api/v1/production-runs/{id}", server.Read, server.Handle(h.get), getDoc),
		server.Op("PATCH /api/v1/production-runs/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/production-runs/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/production-runs/{id}/items", server.Write, server.Handle(h.addItem), addItemDoc),
		server.Op("PATCH /api/v1/production-runs/{id}/items/{item_id}", server.Write, server.Handle(h.updateItem), updateItemDoc),
		server.Op("DELETE /api/v1/production-runs/{id}/items/{item_id}", server.Write, server.Handle(h.deleteItem), deleteItemDoc),
		server.Op("POST /api/v1/production-runs/{id}/materials", server.Write, server.Handle(h.addMaterial), addMaterialDoc),
		server.Op("PATCH /api/v1/production-runs/{id}/materials/{material_id}", server.Write, server.Handle(h.updateMaterial), updateMaterialDoc),
		server.Op("DELETE /api/v1/production-runs/{id}/materials/{material_id}", server.Write, server.Handle(h.deleteMaterial), deleteMaterialDoc),
		server.Op("POST /api/v1/production-runs/{id}/complete", server.Write, server.Handle(h.complete), completeDoc),
	}
}

type handlers struct{ db *db.DB }

// RunStatus is the state of a production run.
type RunStatus string

// The states that set a time.
const (
	inProgress RunStatus = "in_progress"
	completed  RunStatus = "completed"
)

// Enum returns all states.
func (RunStatus) Enum() []string {
	return []string{"pending", string(inProgress), "paused", string(completed), "failed", "cancelled"}
}

// Run is a production run, in requests and in single answers.
type Run struct {
	ID             server.UUID                       `json:"id" rule:"readOnly,notNull" doc:"The run's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51\""`
	Status         server.Optional[RunStatus]        `json:"status" rule:"notNull" doc:"Where the run stands; pending unless it is sent." example:"\"in_progress\""`
	PrinterName    server.Optional[string]           `json:"printer_name" doc:"The printer." example:"\"Printer 1\""`
	StartedAt      server.Optional[server.Timestamp] `json:"started_at" doc:"When printing began; set by the status in_progress if it is not sent." example:"\"2024-01-15T10:00:00Z\""`
	CompletedAt    server.Optional[server.Timestamp] `json:"completed_at" doc:"When printing ended; set by the status completed and by complete if it is not sent." example:"\"2024-01-15T14:30:00Z\""`
	EstimatedHours server.Optional[server.Decimal]   `json:"estimated_print_time_hours" rule:"maximum=100000" doc:"Hours that the print should take." example:"4"`
	ActualHours    server.Optional[server.Decimal]   `json:"actual_print_time_hours" rule:"maximum=100000,computed" doc:"Hours that it took; complete sets it from started_at and completed_at if it is not sent." example:"4.5"`
	EstimatedGrams server.Optional[server.Decimal]   `json:"estimated_total_filament_grams" rule:"maximum=1000000" doc:"Grams of filament that the print should take." example:"150"`
	ActualGrams    server.Optional[server.Decimal]   `json:"actual_total_filament_grams" rule:"maximum=1000000,computed" doc:"Grams that it took; complete sets it to the sum over the materials." example:"155"`
	QualityRating  server.Optional[int64]            `json:"quality_rating" rule:"minimum=1,maximum=5" doc:"1 failed or unusable, 2 major defects, 3 minor defects, 4 good quality, 5 perfect." example:"5"`
	QualityNotes   server.Optional[string]           `json:"quality_notes" rule:"maxLength=10000" doc:"Remarks on the quality." example:"\"Clean first layer\""`
	Notes          server.Optional[string]           `json:"notes" rule:"maxLength=10000" doc:"Anything else." example:"\"Order 1042\""`
	CreatedAt      server.Timestamp                  `json:"created_at" rule:"readOnly,notNull" doc:"When the run was entered." example:"\"2024-01-15T09:55:00Z\""`
	Items          []RunItem                         `json:"items" doc:"The products to print, oldest first."`
	Materials      []RunMaterial                     `json:"materials" doc:"The spools to print from, oldest first."`
	Variance       Variance                          `json:"variance_analysis" rule:"readOnly,notNull" doc:"How the print differed from the estimate."`
}

// RunListItem is a production run in a list.
type RunListItem struct {
	ID             server.UUID      `json:"id" rule:"notNull" doc:"The run's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51\""`
	Status         RunStatus        `json:"status" rule:"notNull" doc:"Where the run stands." example:"\"completed\""`
	PrinterName    string           `json:"printer_name" doc:"The printer." example:"\"Printer 1\""`
	StartedAt      server.Timestamp `json:"started_at" doc:"When printing began." example:"\"2024-01-15T10:00:00Z\""`
	CompletedAt    server.Timestamp `json:"completed_at" doc:"When printing ended." example:"\"2024-01-15T14:30:00Z\""`
	EstimatedHours server.Decimal   `json:"estimated_print_time_hours" doc:"Hours that the print should take." example:"4"`
	ActualHours    server.Decimal   `json:"actual_print_time_hours" doc:"Hours that it took." example:"4.5"`
	EstimatedGrams server.Decimal   `json:"estimated_total_filament_grams" doc:"Grams of filament that the print should take." example:"150"`
	ActualGrams    server.Decimal   `json:"actual_total_filament_grams" doc:"Grams that it took." example:"155"`
	QualityRating  int64            `json:"quality_rating" doc:"1 (failed) to 5 (perfect)." example:"5"`
	CreatedAt      server.Timestamp `json:"created_at" rule:"notNull" doc:"When the run was entered." example:"\"2024-01-15T09:55:00Z\""`
}

// Variance compares what a run took with its estimates: actual minus estimated. A part is null where either side is missing,
// a percentage also where the estimate is zero.
type Variance struct {
	MaterialGrams   server.Decimal `json:"material_variance_grams" doc:"Grams of filament." example:"5"`
	MaterialPercent server.Decimal `json:"material_variance_percent" doc:"The same in percent of the estimate, rounded to one decimal." example:"3.3"`
	TimeHours       server.Decimal `json:"time_variance_hours" doc:"Hours of printing." example:"0.5"`
	TimePercent     server.Decimal `json:"time_variance_percent" doc:"The same in percent of the estimate, rounded to one decimal." example:"12.5"`
}

const listColumns = `id, status, printer_name, started_at, completed_at, estimated_print_time_hours, actual_print_time_hours,
	estimated_total_filament_grams, actual_total_filament_grams, quality_rating, created_at`

const runColumns = `id, status, printer_name, started_at, completed_at, estimated_print_time_hours, actual_print_time_hours,
	estimated_total_filament_grams, actual_total_filament_grams, quality_rating, quality_notes, notes, created_at,
	json_build_object(
		'material_variance_grams', trim_scale(actual_total_filament_grams - estimated_total_filament_grams),
		'material_variance_percent', trim_scale(round((actual_total_filament_grams - estimated_total_filament_grams) * 100 / nullif(estimated_total_filament_grams, 0), 1)),
		'time_variance_hours', trim_scale(actual_print_time_hours - estimated_print_time_hours),
		'time_variance_percent', trim_scale(round((actual_print_time_hours - estimated_print_time_hours) * 100 / nullif(estimated_print_time_hours, 0), 1))
	) as variance_analysis`

// Filter are the parameters of the run list.
type Filter struct {
	server.ListQuery
	Status      server.Optional[RunStatus] `query:"status" doc:"Only runs with this status."`
	PrinterName server.Optional[string]    `query:"printer_name" doc:"Only runs on this printer: the whole name, without regard to case."`
}

var listDoc = &server.Doc{
	ID: "listProductionRuns", Tag: tag, Summary: "List production runs",
	Description: "Without items and materials, which the single run has. The default order (newest first), alone or with one filter, reads an index; any other `sort_by` sorts all matching runs.",
}

func (h handlers) list(ctx context.Context, r *server.Request[Filter]) (server.Page[RunListItem], error) {
	l := server.NewList("production_runs", listColumns, "", "production_runs")
	if in := r.In.Status; !in.IsNull() {
		l.Where("status = ?", in.Arg())
	}
	if in := r.In.PrinterName; !in.IsNull() {
		l.Where(`printer_key = lower(?::text collate "und-x-icu") collate "C"`, *in.Value)
	}
	return server.ListPage[RunListItem](ctx, h.db.Read, l, r.In.ListQuery)
}

// single is a run with all that belongs to it: three statements for one round trip.
type single struct{ run, items, materials *db.Stmt }

func showRun(id string) single {
	return single{
		db.SQL(`select `+runColumns+` from production_runs where id = $1`, id),
		db.SQL(`select `+itemColumns+` from run_items i join products p on p.id = i.product_id where i.run_id = $1 order by i.created_at, i.id`, id),
		db.SQL(`select `+materialColumns+` from run_materials m join spools s on s.id = m.spool_id where m.run_id = $1 order by m.created_at, m.id`, id),
	}
}

func (s single) statements(first ...*db.Stmt) []*db.Stmt {
	return append(first, s.run, s.items, s.materials)
}

func (s single) json() []byte {
	run := s.run.Object()
	b := make([]byte, 0, len(run)+len(s.items.Array())+len(s.materials.Array())+32)
	b = append(b, run[:len(run)-1]...)
	b = append(b, `,"items":`...)
	b = append(b, s.items.Array()...)
	b = append(b, `,"materials":`...)
	b = append(b, s.materials.Array()...)
	return append(b, '}')
}

var getDoc = &server.Doc{ID: "getProductionRun", Tag: tag, Summary: "Get a production run", Description: "With its items, its materials, and how it differed from the estimate. Names of removed products and spools stay."}

func (h handlers) get(ctx context.Context, r *server.Request[struct{}]) (server.OK[Run], error) {
	return h.show(ctx, h.db.Read, showRun(r.ID("id")))
}

func (h handlers) show(ctx context.Context, run func(context.Context, ...*db.Stmt) error, s single, first ...*db.Stmt) ([]byte, error) {
	if err := server.Found(s.run, run(ctx, s.statements(first...)...)); err != nil {
		return nil, err
	}
	return s.json(), nil
}

var createDoc = &server.Doc{
	ID: "createProductionRun", Tag: tag, Summary: "Enter a production run",
	Description: "Every field is optional; `status` is `pending` unless it is sent. `in_progress` sets `started_at` to now and `completed` sets `completed_at` to now, unless they are sent. Items and materials are added by their own operations.",
}

func (h handlers) create(ctx context.Context, r *server.Request[Run]) (server.Created[Run], error) {
	id, in := db.NewID(), &r.In
	status := in.Status.Or("pending")
	now := server.Timestamp{Time: time.Now().UTC().Truncate(time.Microsecond)}
	if status == inProgress && in.StartedAt.IsNull() {
		in.StartedAt = server.Some(now)
	}
	if status == completed && in.CompletedAt.IsNull() {
		in.CompletedAt = server.Some(now)
	}
	insert := db.SQL(`insert into production_runs (id, status, printer_name, started_at, completed_at, estimated_print_time_hours, actual_print_time_hours,
			estimated_total_filament_grams, actual_total_filament_grams, quality_rating, quality_notes, notes)
		values ($1, $2, $3, $4, $5, $6::numeric, $7::numeric, $8::numeric, $9::numeric, $10::int, $11, $12)`,
		id, string(status), in.PrinterName.Arg(), in.StartedAt.Arg(), in.CompletedAt.Arg(), in.EstimatedHours.Arg(), in.ActualHours.Arg(),
		in.EstimatedGrams.Arg(), in.ActualGrams.Arg(), in.QualityRating.Arg(), in.QualityNotes.Arg(), in.Notes.Arg())
	return h.show(ctx, h.db.Write, showRun(id), insert)
}

var errCompleted = server.BadRequest("RUN_ALREADY_COMPLETED", "The run was completed and its filament deducted: its status and its materials are fixed")

var updateDoc = &server.Doc{
	ID: "updateProductionRun", Tag: tag, Summary: "Change a production run",
	Description: "Any status may be set, and none of them touches the inventory: only `complete` does. Once it has, the status is fixed (`RUN_ALREADY_COMPLETED`; sending `completed` again passes); all " +
		"else stays editable. `in_progress` sets `started_at` to now and `completed` sets `completed_at` to now where they are not set.",
	Errors: []*server.Error{errCompleted},
}

func (h handlers) update(ctx context.Context, r *server.Request[Run]) (server.OK[Run], error) {
	in := &r.In
	fill := ""
	switch in.Status.Or("") {
	case inProgress:
		fill = fillTime(&in.StartedAt, "started_at")
	case completed:
		fill = fillTime(&in.CompletedAt, "completed_at")
	}
	set, args := server.Assignments(in, []any{r.ID("id")})
	if set == "" {
		return h.show(ctx, h.db.Read, showRun(r.ID("id")))
	}
	open := ""
	if in.Status.Set {
		args = append(args, in.Status.Arg())
		open = fmt.Sprintf(" and (deducted_at is null or status = $%d)", len(args))
	}
	update := db.SQL(`update production_runs set `+set+fill+` where id = $1`+open+` returning id`, args...)
	changed, err := h.show(ctx, h.db.Write, showRun(r.ID("id")), update)
	if err == nil && update.Rows() == 0 {
		err = errCompleted
	}
	return changed, err
}

// fillTime returns what a status adds to a SET clause: the time is set to now unless the request sends one, or the run has
// one that the request does not clear.
func fillTime(sent *server.Optional[server.Timestamp], column string) string {
	if !sent.IsNull() {
		return ""
	}
	cleared := sent.Set
	sent.Set = false
	if cleared {
		return ", " + column + " = now()"
	}
	return ", " + column + " = coalesce(" + column + ", now())"
}

var deleteDoc = &server.Doc{
	ID: "deleteProductionRun", Tag: tag, Summary: "Remove a production run",
	Description: "With its items and materials. Filament that it used stays used, and the spools' ledgers keep their entries.",
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	deleted := db.SQL(`delete from production_runs where id = $1 returning id`, r.ID("id"))
	return nil, server.Found(deleted, h.db.Write(ctx, deleted))
}
