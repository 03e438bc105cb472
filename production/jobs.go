package production

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/value"
)

// turn stores a state with another condition, another job or the end of a job, and moves the run of the job. The
// context is that of a transaction, in which turn locks the printer's state first: states of a printer wait for each
// other.
func (h handlers) turn(ctx context.Context, s *SentState, result *StateResult) error {
	id := result.PrinterID
	result.Outcome, result.Error, result.RunID = "accepted", nil, nil
	k, err := h.lockState(ctx, id)
	switch {
	case errors.Is(err, server.ErrNotFound):
		result.Outcome, result.Error = "refused", errNoPrinter
		return nil
	case err != nil:
		return err
	}
	n := k.next(s)
	if n.Sequence <= k.Sequence {
		result.Outcome, result.RunID = "duplicate", k.RunID
		return nil
	}
	if err := h.seeTrays(ctx, k, &n); err != nil {
		return err
	}
	gone := n.State != "offline" && n.State != "unknown"
	if n.Job != nil {
		gone = k.Job != nil && n.Job.ID != k.Job.ID
	}
	if missed := k.Job; missed != nil && missed.Outcome == nil && gone {
		missed.Outcome = new(JobOutcome("unknown"))
		if err := h.endJob(ctx, id, missed); err != nil {
			return err
		}
	}
	if n.RunID, err = h.follow(ctx, k, &n, s); err != nil {
		return err
	}
	result.RunID = n.RunID
	writes := []*db.Stmt{db.SQL(`
		update printer_states s set `+setState+` from (`+newStates+`) n where s.id = n.id`,
		db.Recordset([]map[string]any{n.row(s)}))}
	if k.turns(&n) {
		var file, outcome *string
		if n.Job != nil {
			file, outcome = n.Job.File, (*string)(n.Job.Outcome)
		}
		writes = append(writes, db.SQL(`
			insert into printer_state_changes (id, printer_id, state, message, code, file, outcome, created_at)
			values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())`, value.NewID(), string(id), string(n.State),
			s.Message.Arg(), s.Code.Arg(), file, outcome))
		if k.State != n.State && (n.State == "attention" || n.State == "offline") {
			writes = append(writes, db.SQL(`
				select emit_event(event_webhooks($2), $2, json_build_object('id', p.id, 'printer_name', p.name,
					'message', $3::text, 'code', $4::text, 'file', $5::text, 'run_id', $6::uuid))::text
				from printers p where p.id = $1 and event_webhooks($2) is not null`, string(id),
				"printer."+string(n.State), s.Message.Arg(), s.Code.Arg(), file, (*string)(n.RunID)))
		}
	}
	return h.db.Write(ctx, writes...)
}

// seeTrays loads and unloads the slots of the printer whose trays have changed from k to n.
func (h handlers) seeTrays(ctx context.Context, k, n *known) error {
	var writes []*db.Stmt
	for _, s := range k.trays(n) {
		writes = append(writes, printers.SeeTray(string(n.ID), s.Number, s.Tag, s.Empty))
		if !reflect.DeepEqual(s.before, s.Spool) {
			writes = append(writes, printers.SeeSpool(string(n.ID), s.Number, s.Spool, s.before))
		}
	}
	if len(writes) == 0 {
		return nil
	}
	return h.db.Write(ctx, append([]*db.Stmt{printers.LockSlots()}, writes...)...)
}

// lockState locks and returns the state of a printer. It creates the state of a printer that has none. The error is
// ErrNotFound for a printer that does not exist.
func (h handlers) lockState(ctx context.Context, printer value.UUID) (*known, error) {
	read := db.SQL(`
		select s.id, `+knownColumns+` from printer_states s join printers p on p.id = s.id and p.hidden_at is null`+
		joinJob+` where s.id = $1`, string(printer))
	err := h.db.Write(ctx,
		db.SQL(`insert into printer_states (id)
			select p.id from printers p where p.id = $1 and p.hidden_at is null for key share
			on conflict (tenant_id, id) do nothing`, string(printer)),
		db.SQL(`select s.id from printer_states s join printers p on p.id = s.id and p.hidden_at is null
			where s.id = $1 for no key update of s`, string(printer)),
		read)
	if err := server.Found(read, err); err != nil {
		return nil, err
	}
	var k known
	return &k, json.Unmarshal(read.Object(), &k)
}

type printerJob struct {
	Ended   *value.Timestamp `json:"ended_at"`
	RunID   *value.UUID      `json:"run_id"`
	Asked   bool             `json:"asked"`
	Details job              `json:"details"`
	Outcome *JobOutcome      `json:"outcome"`
	Status  RunStatus        `json:"status"` // of the run
	Open    bool             `json:"open"`   // whether the run has neither ended nor been removed
}

// findJob returns a stored job, after statements that may store it, or nil.
func (h handlers) findJob(ctx context.Context, printer value.UUID, id string, first ...*db.Stmt) (*printerJob, error) {
	read := db.SQL(`
		select j.run_id, j.asked, j.details::json as details, j.outcome, j.ended_at, coalesce(r.status, '') as status,
			coalesce(r.hidden_at is null and r.deducted_at is null
				and r.status in ('pending', 'in_progress', 'paused'), false) as open
		from printer_jobs j left join production_runs r on r.id = j.run_id
		where j.printer_id = $1 and j.job = $2`, string(printer), id)
	if err := h.db.Write(ctx, append(first, read)...); err != nil || read.Rows() == 0 {
		return nil, err
	}
	j := &printerJob{}
	return j, json.Unmarshal(read.Object(), j)
}

// follow moves the run of the job of the state n, which follows k. It returns the run, or nil.
func (h handlers) follow(ctx context.Context, k, n *known, s *SentState) (*value.UUID, error) {
	j := n.Job
	switch {
	case j == nil:
		return nil, nil
	case s.Job == nil:
		return n.RunID, nil
	}
	j.ended = s.ObservedAt.Value
	prints := n.State == "printing" || n.State == "paused" || n.State == "attention"
	stored, err := h.findJob(ctx, n.ID, j.ID)
	switch {
	case err != nil:
		return nil, err
	case stored == nil && j.Outcome == nil && !prints: // a file that waits on the printer
		return nil, nil
	case stored == nil && j.Outcome != nil &&
		(k.Sequence == 0 || *j.Outcome != "completed" && value.OrZero(j.Progress) == 0):
		// It ended before anybody watched, or has not printed anything.
		_, err := h.addJob(ctx, n.ID, j, nil, false)
		return nil, err
	case stored == nil || stored.Asked && stored.Details.File == nil && j.File != nil: // now it has a name
		run, asked, err := h.match(ctx, n.ID, j)
		if err != nil {
			return nil, err
		}
		if stored, err = h.addJob(ctx, n.ID, j, run, asked); err != nil {
			return nil, err
		}
		if run != nil {
			stored.Outcome = nil
		}
	case stored.Outcome != nil && *stored.Outcome == "unknown" && !j.lost(): // it was only out of sight
		stored.Outcome = nil
		if err := h.reopenJob(ctx, n.ID, j.ID); err != nil {
			return nil, err
		}
	}
	if err := h.moveRun(ctx, n.ID, stored, j, n.State, k.State); err != nil {
		return nil, err
	}
	if j.Outcome != nil && stored.Outcome == nil {
		err = h.endJob(ctx, n.ID, j)
	}
	return stored.RunID, err
}

func (h handlers) reopenJob(ctx context.Context, printer value.UUID, id string) error {
	return h.db.Write(ctx, db.SQL(`update printer_jobs set outcome = null where printer_id = $1 and job = $2`,
		string(printer), id))
}

// moveRun starts, pauses or continues the run of a stored job, as the printer does with the job. A run that cannot
// start is left to a person.
func (h handlers) moveRun(ctx context.Context, printer value.UUID, stored *printerJob, j *job,
	now, before PrinterCondition) error {
	if !stored.Open || stored.Outcome != nil {
		return nil
	}
	run := string(*stored.RunID)
	switch {
	case stored.Status == pending, stored.Status == paused && now == "printing" && before != now:
		_, err := h.startRun(ctx, run, j.started(h.db.Now()))
		var problem *server.Error
		if errors.As(err, &problem) && problem.Status < 500 {
			stored.RunID, stored.Asked, stored.Open = nil, true, false
			return h.db.Write(ctx, db.SQL(`update printer_jobs set run_id = null, asked = true
				where printer_id = $1 and job = $2`, string(printer), j.ID))
		}
		if err != nil {
			return err
		}
		stored.Status = inProgress
	}
	if stored.Status == inProgress && now == "paused" {
		return h.db.Write(ctx, h.updateOf(run, Run{Status: value.Some(paused)}).statements...)
	}
	return nil
}

// started returns when the job has started, as far as its printer says it; otherwise now.
func (j *job) started(now time.Time) time.Time {
	switch {
	case j.StartedAt != nil:
		return j.StartedAt.Time
	case j.Elapsed != nil:
		return now.Add(-time.Duration(*j.Elapsed / value.DecimalOne * 1e9))
	}
	return now
}

// addJob stores a job that the printer has begun or ended, or a job without a name that has one now, and returns it.
func (h handlers) addJob(ctx context.Context, printer value.UUID, j *job, run *value.UUID, asked bool) (
	*printerJob, error,
) {
	details, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	var outcome, ended any // of a job without a run; endJob ends the others
	if j.Outcome != nil && run == nil {
		outcome, ended = string(*j.Outcome), j.endedAt()
	}
	return h.findJob(ctx, printer, j.ID, db.SQL(`
		insert into printer_jobs as o (printer_id, job, run_id, asked, details, outcome, file_key, plate, ended_at)
		values ($1, $2, $3::uuid, $4, $5, $6, file_key($7), $8, $9)
		on conflict (tenant_id, printer_id, job) do update set run_id = excluded.run_id, asked = excluded.asked,
			details = excluded.details, outcome = excluded.outcome, file_key = excluded.file_key, plate = excluded.plate,
			ended_at = excluded.ended_at
		where o.asked`, string(printer), j.ID, (*string)(run), asked, string(details), outcome, j.File, j.plate(), ended))
}

// plateOfName finds the number of the plate that slicers and printers write into the names of files.
var plateOfName = regexp.MustCompile(`(?i)plate[ _]*([0-9]{1,4})\)?(\.[a-z0-9.]*)?$`)

// plate returns the number of the plate that the job prints, or nil.
func (j *job) plate() *int64 {
	if j.Plate != nil || j.File == nil {
		return j.Plate
	}
	if m := plateOfName.FindStringSubmatch(*j.File); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return &n
	}
	return nil
}

// candidate is a run that a job may be.
type candidate struct {
	ID      value.UUID `json:"id"`
	Pending bool       `json:"pending"`
	Named   bool       `json:"named"`  // whether its product was made from the file
	Sure    bool       `json:"sure"`   // whether the plate is that of the job, too
	Prints  string     `json:"prints"` // its products that were made from the file: variants have the same file
}

// candidatesOf returns a SQL expression: the unfinished runs on a printer without another job, which a job of the file
// may be. Runs without a product have the name of the file as their notes.
func candidatesOf(printer, file, sha256, plate string) string {
	key := "file_key(" + file + ")"
	return `(
		select r.id, r.status = 'pending' as pending, r.queue_position, r.created_at,
			coalesce(f.named, false) or coalesce(nullif(file_key(r.notes), '') = ` + key + `, false) as named,
			coalesce(f.sure, true) as sure, coalesce(f.prints, '') as prints,
			coalesce((select string_agg(i.quantity || ' × ' || p.name, ', ' order by i.created_at, i.id)
				from (select * from run_items i where i.run_id = r.id order by i.created_at, i.id limit 2) i
				join products p on p.id = i.product_id), r.notes, '') as title
		from production_runs r
		left join lateral (
			select true as named, bool_and(case when p.plate is not null then coalesce(p.plate = ` + plate + `, false)
				else not exists (select from products x where x.plate_of = p.id and x.hidden_at is null) end) as sure,
				string_agg(p.id::text, ' ' order by p.id) as prints
			from run_items i join products p on p.id = i.product_id
			where i.run_id = r.id and (p.file_sha256 = ` + sha256 + ` or nullif(p.file_key, '') = ` + key + `)
				and (p.plate is null or ` + plate + ` is null or p.plate = ` + plate + `)
			having count(*) > 0
		) f on true
		where ` + openRun(printer) + `)`
}

// openRun is a SQL condition: the run r has not ended, and is on a printer without another job.
func openRun(printer string) string {
	return `r.printer_id = ` + printer + ` and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
			and r.deducted_at is null and not exists (select from printer_jobs j where j.run_id = r.id)`
}

// shortName matches the names of long files on old file systems, such as BIGDRA~1.GCO.
var shortName = regexp.MustCompile(`~[0-9]+(\.[^.]*)?$`)

// match returns the run of a new job: a run on the printer that has no job yet, or a new one. If a person must say
// which run it is, asked is true and the run is nil. The run is locked.
func (h handlers) match(ctx context.Context, printer value.UUID, j *job) (run *value.UUID, asked bool, err error) {
	read := db.SQL(`select id, pending, named, sure, prints from `+candidatesOf("$1", "$2::text", "$3", "$4::int")+` c
		order by pending, queue_position, created_at, id limit 500`, string(printer), j.File, j.SHA256, j.plate())
	if err := h.db.Write(ctx, read); err != nil {
		return nil, false, err
	}
	var all []candidate
	if err := json.Unmarshal(read.Array(), &all); err != nil {
		return nil, false, err
	}
	started := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.Pending })
	short := j.File != nil && shortName.MatchString(*j.File) && len(all) > 0
	waiting := slices.DeleteFunc(all, func(c candidate) bool { return !c.Pending || !c.Named })
	mixed := slices.ContainsFunc(waiting, func(c candidate) bool { return c.Prints != waiting[0].Prints })
	var found value.UUID
	switch {
	case len(started) == 1 && started[0].Named && started[0].Sure:
		found = started[0].ID
	case len(started) == 0 && len(waiting) > 0 && waiting[0].Sure && j.Certain && !j.Adopted && !mixed:
		found = waiting[0].ID
	case len(started) > 0 || len(waiting) > 0 || short || j.File == nil:
		return nil, true, nil
	default:
		return h.matchNone(ctx, printer, j)
	}
	// Somebody may have removed, moved or ended the run meanwhile.
	locked := db.SQL(`select r.id from production_runs r where r.id = $2 and `+openRun("$1")+` for no key update of r`,
		string(printer), string(found))
	if err := h.db.Write(ctx, locked); err != nil {
		return nil, false, err
	}
	if locked.Rows() == 0 {
		return h.match(ctx, printer, j)
	}
	return &found, false, nil
}

// matchNone creates a run of a job that was not planned. If the printer is busy with another run, a person is asked.
func (h handlers) matchNone(ctx context.Context, printer value.UUID, j *job) (run *value.UUID, asked bool, err error) {
	err = h.db.Write(ctx,
		db.SQL(`select pg_advisory_xact_lock(hashtextextended('start on ' || $1::uuid, 0))::text`, string(printer)),
		db.SQL(`select printer_is_busy($1, $1, 'pending')`, string(printer)).Into(&asked))
	if err == nil && !asked {
		run, err = h.newRun(ctx, printer, j)
	}
	return run, asked, err
}

// newRun creates a pending run of a job that was not planned: of the product that was made from the file, if there is
// one, and with the spool of the printer, if it has one.
func (h handlers) newRun(ctx context.Context, printer value.UUID, j *job) (*value.UUID, error) {
	in := Run{PrinterID: value.Some(printer), Notes: value.Optional[string]{Set: true, Value: j.File}}
	q := &RunFileQuery{Plate: value.Optional[int64]{Value: j.plate()}, ofPrint: true}
	out := &RunFileResult{Quantity: 1, FileSHA256: value.OrZero(j.SHA256)}
	if err := h.itemOfFile(ctx, q, out, &in, j.File); err != nil {
		return nil, err
	}
	var spools []string
	var plates bool
	// What a person has said about an earlier print of the file. Without an answer about the last ones, there is none.
	earlier := db.SQL(`
		select i.product_id, i.quantity from (
			select o.run_id
			from (select run_id, created_at from printer_jobs
				where file_key = file_key($1) and file_key <> '' and plate is not distinct from $2::int
					and run_id is not null order by created_at desc limit 100) o
			join production_runs r on r.id = o.run_id and r.hidden_at is null
			where exists (select from run_items i where i.run_id = o.run_id)
			order by o.created_at desc limit 1
		) o
		join run_items i on i.run_id = o.run_id
		join products p on p.id = i.product_id and p.hidden_at is null
		order by i.created_at, i.id limit 100`, j.File, j.plate())
	err := h.db.Write(ctx, earlier,
		db.SQL(`select array(select spool_id::text from printer_slots where printer_id = $1 limit 2)`, string(printer)).
			Into(&spools),
		db.SQL(`select exists (select from products where plate_of = $1::uuid and hidden_at is null)`,
			(*string)(out.ProductID)).Into(&plates))
	if err != nil {
		return nil, err
	}
	if plates { // the job prints one plate, and nobody knows which
		in.Items = nil
	}
	var printed []struct {
		ProductID value.UUID `json:"product_id"`
		Quantity  int64      `json:"quantity"`
	}
	if err := json.Unmarshal(earlier.Array(), &printed); err != nil {
		return nil, err
	}
	if len(in.Items) == 0 {
		for _, p := range printed {
			in.Items = append(in.Items, RunItem{ProductID: value.Some(p.ProductID), Quantity: value.Some(p.Quantity)})
		}
	}
	if len(spools) == 1 {
		in.Materials = []RunMaterial{{SpoolID: value.Some(value.UUID(spools[0]))}}
	}
	created, err := h.create(ctx, &server.Request[Run]{In: in})
	if err != nil {
		return nil, err
	}
	var run struct{ ID value.UUID }
	return &run.ID, json.Unmarshal(created, &run)
}

// endingJob is the run of a job that ends.
type endingJob struct {
	RunID     *value.UUID   `json:"run_id"`
	Open      bool          `json:"open"`
	Confirm   bool          `json:"confirm"` // whether all runs wait for a person
	Materials []jobMaterial `json:"materials"`
	Loaded    []jobMaterial `json:"loaded"` // the spools of the printer
}

// jobMaterial is a material of the run, or a loaded spool.
type jobMaterial struct {
	ID       value.UUID `json:"id"`
	Slot     int64      `json:"slot"` // of the printer; 0 if the spool is in none
	Given    bool       `json:"given"`
	Reported bool       `json:"reported"`
	Estimate bool       `json:"estimate"`

	added bool // a loaded spool, which becomes a material
}

// endJob ends a job, once: its run gets hours and grams, and ends too, unless a person must confirm it.
func (h handlers) endJob(ctx context.Context, printer value.UUID, j *job) error {
	details, err := json.Marshal(j)
	if err != nil {
		return err
	}
	ended := db.SQL(`
		update printer_jobs j set outcome = $3, details = $4, ended_at = $5
		where j.printer_id = $1 and j.job = $2 and j.outcome is null
		returning j.run_id`, string(printer), j.ID, string(*j.Outcome), string(details), j.endedAt())
	const loaded = `(select l.slot from printer_slots l where l.printer_id = j.printer_id and l.spool_id = m.spool_id)`
	read := db.SQL(`
		select j.run_id, coalesce(r.hidden_at is null and r.deducted_at is null
				and r.status in ('in_progress', 'paused'), false) as open,
			(select t.confirm_runs = 'all' from tenants t where t.tenant_id = j.tenant_id) as confirm,
			(select coalesce(json_agg(json_build_object('id', m.id, 'slot', coalesce(`+loaded+`, 0),
					'given', m.actual_weight_grams is not null,
					'reported', material_reported(m.run_id, m.spool_id, m.id) is not null,
					'estimate', coalesce(m.estimated_weight_grams, m.total) is not null)
					order by m.created_at, m.id), '[]')
				from (select m.*, case when count(*) over () = 1 then r.estimated_total_filament_grams end as total
					from run_materials m where m.run_id = j.run_id) m) as materials,
			(select coalesce(json_agg(json_build_object('id', l.spool_id, 'slot', l.slot) order by l.slot), '[]')
				from printer_slots l where l.printer_id = j.printer_id) as loaded
		from printer_jobs j left join production_runs r on r.id = j.run_id
		where j.printer_id = $1 and j.job = $2`, string(printer), j.ID)
	if err := h.db.Write(ctx, ended, read); err != nil || ended.Rows() == 0 {
		return err
	}
	var e endingJob
	if err := json.Unmarshal(read.Object(), &e); err != nil || !e.Open {
		return err
	}
	return h.endRun(ctx, string(*e.RunID), &e, j)
}

// maxElapsed is the longest plausible print, in seconds: 30 days.
const maxElapsed = 30 * 24 * 3600 * value.DecimalOne

// endRun fills in the end of a run by its job, and ends the run unless a person must confirm it.
func (h handlers) endRun(ctx context.Context, run string, e *endingJob, j *job) error {
	outcome := *j.Outcome
	rows, source, strange := e.use(j)
	var reason, notes, at, hours any
	unused := outcome == "cancelled" && j.Progress != nil && *j.Progress == 0
	if outcome == "failed" {
		reason, notes = string(j.failure()), j.Reason
	}
	if outcome != "unknown" {
		at = j.endedAt()
	}
	switch {
	case j.Elapsed == nil || *j.Elapsed < 60*value.DecimalOne || outcome == "unknown":
	case *j.Elapsed > maxElapsed:
		strange = true
	default:
		hours = j.Elapsed.String()
	}
	var doubt bool
	err := h.db.Write(ctx, lockRun(run),
		db.SQL(`insert into run_materials (id, run_id, spool_id, cost_per_gram, planned_filament)
			select n.material, $1, s.id, s.cost_per_gram, spool_filament(s)
			from json_to_recordset($2::json) n (material uuid, spool uuid) join spools s on s.id = n.spool`,
			run, db.Recordset(slices.DeleteFunc(slices.Clone(rows), func(row map[string]any) bool {
				return row["spool"] == nil
			}))),
		db.SQL(`
			update run_materials m set sent_actual_grams = least(round(g.grams, 6), 1000000)
			from (
				select m.id, coalesce(n.grams, n.millimetres * grams_per_mm(s.diameter_mm,
					coalesce(s.density_g_cm3, usual_density(s.material_type))), coalesce(e.estimated_weight_grams,
					case when $3 then r.estimated_total_filament_grams end) * n.part) as grams
				from json_to_recordset($2::json) n (material uuid, estimated uuid, grams numeric, millimetres numeric,
					part numeric)
				join run_materials m on m.id = n.material and m.run_id = $1
				join run_materials e on e.id = coalesce(n.estimated, n.material)
				join spools s on s.id = m.spool_id
				join production_runs r on r.id = m.run_id
			) g
			where m.id = g.id and m.run_id = $1 and g.grams is not null`, run, db.Recordset(rows),
			len(e.Materials) == 1),
		db.SQL(`
			update production_runs r set usage_source = $2, failure_reason = coalesce($3, r.failure_reason),
				failure_notes = coalesce($4, r.failure_notes), updated_at = now(),
				completed_at = coalesce(r.completed_at,
					case when $5::timestamptz is not null then greatest(least($5, now()), r.started_at) end),
				actual_print_time_hours = coalesce(r.actual_print_time_hours, round($6::numeric / 3600, 6))
			where r.id = $1`, run, source, reason, notes, at, hours),
		// Grams that are unknown for a material, far from the estimate, or, without one, more than there was.
		db.SQL(`
			select coalesce(bool_or(m.grams is null) or sum(m.grams) > coalesce(2 * min(e.grams), sum(m.stock))
				or coalesce($3 and 2 * sum(m.grams) < min(e.grams), false), not $2)
			from (
				select coalesce(m.actual_weight_grams, u.grams) as grams, s.remaining_weight_grams + coalesce(u.grams, 0) as stock
				from run_materials m join spools s on s.id = m.spool_id
				cross join lateral (select material_reported(m.run_id, m.spool_id, m.id) as grams) u
				where m.run_id = $1
			) m
			cross join (select nullif(estimated_total_filament_grams, 0) as grams from production_runs where id = $1) e`,
			run, unused, outcome == "completed").Into(&doubt))
	if err != nil || doubt || strange || e.Confirm || outcome == "failed" || outcome == "unknown" {
		return err
	}
	end := ending{status: completed, kind: "run", closed: errNotOpen}
	if outcome == "cancelled" {
		end = ending{status: cancelled, kind: "wasted", closed: errClosed}
	}
	var problem *server.Error
	if _, err = h.end(ctx, run, &end); errors.As(err, &problem) && problem.Status < 500 {
		return nil // a person adds what is missing
	}
	return err
}

// endedAt returns when the watcher saw the end of the job, or nil.
func (j *job) endedAt() any {
	if j.ended == nil {
		return nil
	}
	return j.ended.Time
}

// failure returns the reason of a failed job, as far as the printer's words have it.
func (j *job) failure() FailureReason {
	reason := strings.ToLower(value.OrZero(j.Reason))
	switch {
	case strings.Contains(reason, "runout"), strings.Contains(reason, "run out"):
		return "filament_runout"
	case strings.Contains(reason, "power"):
		return "power_failure"
	case strings.Contains(reason, "clog"):
		return "clog"
	}
	return "printer_error"
}

// maxSlots is the maximum number of slots of a printer.
const maxSlots = 64

var slotNames = regexp.MustCompile(`^(?:([A-D])([1-4])|T([0-9]{1,2}))$`)

// slot returns the number of the printer's slot from which the filament came, or 0.
func (u use) slot() int64 {
	if u.Slot == nil {
		return value.OrZero(u.Tool) + 1
	}
	return slotNumber(*u.Slot)
}

// slotNumber returns the number of the slot with a name, or 0 if a printer cannot have one.
func slotNumber(name string) int64 {
	m := slotNames.FindStringSubmatch(name)
	switch {
	case m == nil:
		return 0
	case m[3] != "":
		if n, _ := strconv.ParseInt(m[3], 10, 64); n < maxSlots {
			return n + 1
		}
		return 0
	}
	return int64(m[1][0]-'A')*4 + int64(m[2][0]-'0')
}

// use returns the use of the materials without given or reported grams, as rows with the keys material, spool (of a
// new material), grams, millimetres, part and estimated (the material whose estimate has the part), and where it comes
// from: what the job has used, if each part of it came from the slot of one material and each material got one, and
// else the part of the estimate that was printed. A run without materials gets the spools that were used. If filament
// ran out and the printer went on with that of another slot, the spools share the estimate. strange reports filament
// from a slot with another spool than the planned one, or that printers have reported for only some of the materials.
func (e *endingJob) use(j *job) (rows []map[string]any, source any, strange bool) {
	materials := e.Materials
	if len(materials) == 0 {
		for _, l := range e.Loaded {
			used := slices.ContainsFunc(j.Used, func(u use) bool { return u.slot() == l.Slot })
			if used || len(e.Loaded) == 1 && len(j.Used) > 0 {
				l.added = true
				materials = append(materials, l)
			}
		}
	}
	grams, millimetres := map[value.UUID]value.Decimal{}, map[value.UUID]value.Decimal{}
	mapped, byGrams, found := len(j.Used) > 0, false, map[int]bool{}
	for i, u := range j.Used {
		n := slices.IndexFunc(materials, func(m jobMaterial) bool { return m.Slot > 0 && m.Slot == u.slot() })
		if n < 0 && slices.ContainsFunc(e.Loaded, func(l jobMaterial) bool { return l.Slot == u.slot() }) &&
			(u.Slot != nil || len(materials) == 1 && materials[0].Slot == 0) {
			strange = true
		}
		if len(materials) == 1 {
			n = 0
		} else if n < 0 && len(materials) == len(j.Used) {
			n = i
		}
		found[n] = true
		switch {
		case n < 0 || u.Grams == nil && u.Millimetres == nil:
			mapped = false
		case u.Grams != nil:
			byGrams = true
			grams[materials[n].ID] += *u.Grams
		default:
			millimetres[materials[n].ID] += *u.Millimetres
		}
	}
	mapped = mapped && (len(grams) == 0 || len(millimetres) == 0)
	reported := slices.ContainsFunc(materials, func(m jobMaterial) bool { return m.Reported })
	for i, m := range materials {
		if !found[i] && !m.Given && !m.Reported {
			mapped, strange = false, strange || reported
		}
	}
	part, known := value.Decimal(value.DecimalOne), *j.Outcome == "completed"
	if !known && !j.lost() && j.Progress != nil {
		part, known = *j.Progress, true
	}
	for _, m := range materials {
		row := map[string]any{"material": m.ID}
		if m.added {
			row["material"], row["spool"] = value.NewID(), m.ID
		}
		switch {
		case m.Given:
			continue
		case m.Reported:
			if source == nil {
				source = "reports"
			}
			continue
		case mapped && byGrams:
			row["grams"], source = grams[m.ID], "grams"
		case mapped:
			row["millimetres"], source = millimetres[m.ID], "length"
		case known && part == 0:
			row["grams"], source = 0, "estimate"
		case m.Estimate && known:
			if len(materials) == 1 {
				for spool, share := range e.others(j, m, part) {
					rows = append(rows, map[string]any{"material": value.NewID(), "spool": spool, "estimated": m.ID,
						"part": share})
					part -= share
				}
			}
			row["part"], source = part, "estimate"
		default:
			continue
		}
		rows = append(rows, row)
	}
	return rows, source, strange
}

// others returns the parts of a print of one filament for which it came from the slots of other spools than that of the
// only material, by spool. The parts end with the part that was printed.
func (e *endingJob) others(j *job, m jobMaterial, end value.Decimal) map[value.UUID]value.Decimal {
	parts := map[value.UUID]value.Decimal{}
	for i := len(j.Used) - 1; i > 0; i-- {
		u := j.Used[i]
		switch {
		case value.OrZero(u.Tool) != value.OrZero(j.Used[0].Tool):
			return nil
		case u.From == nil || *u.From >= end:
			continue
		}
		for _, l := range e.Loaded {
			if l.Slot == u.slot() && l.Slot != m.Slot {
				parts[l.ID] = end - *u.From
			}
		}
		end = *u.From
	}
	return parts
}

// AnswerRequest is the body of answerPrinterQuestion.
type AnswerRequest struct {
	Job    value.Optional[string]     `json:"job" rule:"required"`
	Answer value.Optional[string]     `json:"answer" rule:"required,enum=run|new_run|none,named=JobAnswer"`
	RunID  value.Optional[value.UUID] `json:"run_id"`
}

// Check reports a missing run.
func (r *AnswerRequest) Check(problems *server.Problems) {
	if r.Answer.Or("") == "run" && r.RunID.IsNull() {
		problems.Add("run_id", "is required with the answer run")
	}
}

// Answered is the response to answerPrinterQuestion.
type Answered struct {
	PrinterID value.UUID  `json:"printer_id" rule:"notNull"`
	RunID     *value.UUID `json:"run_id"`
}

var (
	errNoQuestion = server.Conflict("NO_QUESTION", "No question about this job is open").On("job")
	errNotItsRun  = server.BadRequest("UNKNOWN_REFERENCE",
		"run_id is not the id of an unfinished run on this printer without another job").On("run_id")
)

var answerDoc = &server.Doc{
	ID: "answerPrinterQuestion", Tag: printers.Tag.With(fields), Summary: "Say which run a job of a printer is",
	Description: "Answers the open question about a job: it is the `run` with `run_id`, an unfinished run on the " +
		"printer; a `new_run`; or `none`, such as a test. The run then starts, and ends if the job has ended, as with " +
		"`createPrinterStates`.",
	Request: `{"job":"0000BF-1705309200","answer":"none"}`,
	Errors:  []*server.Error{errNoQuestion, errNotItsRun, errBusy},
}

func (h handlers) answer(ctx context.Context, r *server.Request[AnswerRequest]) (server.OK[Answered], error) {
	printer, run := value.UUID(r.ID("id")), r.In.RunID.Value
	err := h.db.Tx(ctx, func(ctx context.Context) error {
		k, err := h.lockState(ctx, printer)
		if err != nil {
			return err
		}
		stored, err := h.findJob(ctx, printer, *r.In.Job.Value)
		if err != nil {
			return err
		}
		if stored == nil || !stored.Asked {
			return errNoQuestion
		}
		j, state := &stored.Details, k.State
		if k.Job != nil && k.Job.ID == j.ID {
			j = k.Job
		} else {
			state = "idle"
		}
		j.Outcome, j.ended = stored.Outcome, stored.Ended
		switch *r.In.Answer.Value {
		case "none":
			run = nil
		case "new_run":
			if run, err = h.newRun(ctx, printer, j); err != nil {
				return err
			}
		default:
			run = r.In.RunID.Value
		}
		attached := db.SQL(`
			update printer_jobs j set asked = false, run_id = $3::uuid
			where j.printer_id = $1 and j.job = $2 and ($3::uuid is null or exists (
				select from production_runs r where r.id = $3::uuid and `+openRun("$1")+`))
			returning j.run_id`, string(printer), j.ID, (*string)(run))
		lock := db.SQL(`select id from production_runs where id = $1::uuid for no key update`, (*string)(run))
		stored, err = h.findJob(ctx, printer, j.ID, lock, attached)
		switch {
		case err != nil:
			return err
		case attached.Rows() == 0:
			return errNotItsRun
		case run == nil:
			return nil
		}
		stored.Outcome = nil
		if err := h.moveRun(ctx, printer, stored, j, state, ""); err != nil {
			return err
		}
		if stored.Asked {
			return errBusy.With("The printer")
		}
		if j.Outcome == nil {
			return nil
		}
		if err := h.reopenJob(ctx, printer, j.ID); err != nil { // the run is the job's only now
			return err
		}
		return h.endJob(ctx, printer, j)
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(Answered{PrinterID: printer, RunID: run})
}
