package production

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/value"
)

var watchTag = &server.Tag{
	Name: "printer-states", Fields: fields,
	Description: "The states of watched printers. A watcher sends them; runs start, pause and end with the jobs of the " +
		"printers. See `docs/watching.md`.",
}

// PrinterCondition is what a printer does.
type PrinterCondition string

// Enum returns all conditions.
func (PrinterCondition) Enum() []string {
	return []string{"idle", "printing", "paused", "attention", "offline", "unknown"}
}

// JobOutcome is how a job of a printer has ended.
type JobOutcome string

// Enum returns all outcomes.
func (JobOutcome) Enum() []string { return []string{"completed", "cancelled", "failed", "unknown"} }

// SentStates is the body of createPrinterStates.
type SentStates struct {
	Watcher value.Optional[string] `json:"watcher" rule:"maxLength=100,trim"`
	States  []SentState            `json:"states" rule:"maxItems=1000"`
}

// SentState is a state of a printer in a request.
type SentState struct {
	PrinterID  value.Optional[value.UUID]       `json:"printer_id" rule:"required"`
	Sequence   value.Optional[int64]            `json:"sequence" rule:"required,sequence"`
	State      value.Optional[PrinterCondition] `json:"state" rule:"required"`
	Message    value.Optional[string]           `json:"message" rule:"maxLength=500"`
	Code       value.Optional[string]           `json:"code" rule:"maxLength=100"`
	PrinterAt  value.Optional[value.Timestamp]  `json:"printer_at"`
	ObservedAt value.Optional[value.Timestamp]  `json:"observed_at"`
	Job        *SentJob                         `json:"job"`
	Slots      []SentSlot                       `json:"slots" rule:"maxItems=64"`
}

// Check reports a job without an identity.
func (s *SentState) Check(problems *server.Problems) {
	if s.Job != nil && s.Job.ID.Or("") == "" {
		problems.Add("job.id", "is required")
	}
}

// SentJob is a job of a printer: the one that it prints, or the last one.
type SentJob struct {
	ID          value.Optional[string]          `json:"id"`
	File        value.Optional[string]          `json:"file" rule:"maxLength=500"`
	Plate       value.Optional[int64]           `json:"plate" rule:"minimum=1,maximum=1000"`
	SHA256      value.Optional[string]          `json:"sha256" rule:"maxLength=64"`
	Adopted     value.Optional[bool]            `json:"adopted"`
	Certain     value.Optional[bool]            `json:"certain"`
	StartedAt   value.Optional[value.Timestamp] `json:"started_at"`
	Elapsed     value.Optional[value.Decimal]   `json:"elapsed_seconds" rule:"maximum=360000000"`
	Progress    value.Optional[value.Decimal]   `json:"progress" rule:"maximum=1"`
	SecondsLeft value.Optional[value.Decimal]   `json:"seconds_left" rule:"maximum=360000000"`
	Used        []SentUse                       `json:"used" rule:"patched,maxItems=64"`
	Outcome     value.Optional[JobOutcome]      `json:"outcome"`
	Reason      value.Optional[string]          `json:"reason"`
}

// SentUse is what a job has used of one filament so far.
type SentUse struct {
	Tool        value.Optional[int64]         `json:"tool" rule:"maximum=1000"`
	Slot        value.Optional[string]        `json:"slot" rule:"maxLength=20"`
	Millimetres value.Optional[value.Decimal] `json:"millimetres" rule:"maximum=999999999"`
	Grams       value.Optional[value.Decimal] `json:"grams" rule:"maximum=1000000"`
}

// SentSlot is what a printer says is loaded into a slot.
type SentSlot struct {
	Slot      value.Optional[string] `json:"slot" rule:"required,maxLength=20"`
	Tag       value.Optional[string] `json:"tag" rule:"maxLength=100"`
	Material  value.Optional[string] `json:"material" rule:"maxLength=100"`
	Color     value.Optional[string] `json:"color" rule:"format=color"`
	Remaining value.Optional[int64]  `json:"remaining_percent" rule:"maximum=100"`
	Empty     value.Optional[bool]   `json:"empty" rule:"notNull"`
	Spool     value.Optional[int64]  `json:"spool_number" rule:"minimum=1,maximum=999999999"`
}

// StateResults is the response to createPrinterStates.
type StateResults struct {
	Results []StateResult `json:"results" rule:"notNull"`
}

// StateResult is the result of a sent state.
type StateResult struct {
	PrinterID value.UUID  `json:"printer_id" rule:"notNull"`
	Sequence  int64       `json:"sequence" rule:"notNull"`
	Outcome   string      `json:"outcome" rule:"notNull,enum=accepted|duplicate|refused,named=StateOutcome"`
	RunID     *value.UUID `json:"run_id"`
	Error     *StateError `json:"error"`
}

// StateError is the reason why a state was refused.
type StateError struct {
	Code   string `json:"code" rule:"notNull"`
	Detail string `json:"detail" rule:"notNull"`
}

// PrinterJob, FilamentUse, LeasedSlot and PrinterSlot are what was sent, in a response.
type (
	PrinterJob struct {
		SentJob
		Used []FilamentUse `json:"used" rule:"notNull"`
	}

	FilamentUse struct {
		SentUse
		From value.Decimal `json:"from_progress"`
	}

	LeasedSlot struct {
		SentSlot
		Number int64 `json:"number" rule:"notNull"`
	}

	PrinterSlot struct {
		LeasedSlot
		Unknown bool `json:"unknown" rule:"notNull"`
	}
)

// job is a PrinterJob as it is stored and returned.
type job struct {
	ID          string           `json:"id"`
	File        *string          `json:"file"`
	Plate       *int64           `json:"plate"`
	SHA256      *string          `json:"sha256"`
	Adopted     bool             `json:"adopted"`
	Certain     bool             `json:"certain"`
	StartedAt   *value.Timestamp `json:"started_at"`
	Elapsed     *value.Decimal   `json:"elapsed_seconds"`
	Progress    *value.Decimal   `json:"progress"`
	SecondsLeft *value.Decimal   `json:"seconds_left"`
	Used        []use            `json:"used"`
	Outcome     *JobOutcome      `json:"outcome"`
	Reason      *string          `json:"reason"`

	ended *value.Timestamp // when its watcher saw its end
}

type use struct {
	Tool        *int64         `json:"tool"`
	Slot        *string        `json:"slot"`
	Millimetres *value.Decimal `json:"millimetres"`
	Grams       *value.Decimal `json:"grams"`
	From        *value.Decimal `json:"from_progress"`
}

type slot struct {
	Slot      string  `json:"slot"`
	Number    int64   `json:"number"` // see slotNumber
	Tag       *string `json:"tag"`
	Material  *string `json:"material"`
	Color     *string `json:"color"`
	Remaining *int64  `json:"remaining_percent"`
	Empty     bool    `json:"empty"`
	Spool     *int64  `json:"spool_number"`

	before *int64 // the number of the spool that the printer has named before
}

// stored returns the job of the state, or nil. What the state does not say about the job old stays if old is the same
// job, unless its end was not known. Its progress, time and use never become less.
func (s *SentState) stored(old *job) *job {
	in := s.Job
	if in == nil {
		return nil
	}
	j := &job{ID: in.ID.Or(""), File: in.File.Value, Plate: in.Plate.Value, SHA256: in.SHA256.Value,
		Adopted: in.Adopted.Or(false), Certain: in.Certain.Or(true), StartedAt: in.StartedAt.Value,
		Elapsed: in.Elapsed.Value, Progress: in.Progress.Value, SecondsLeft: in.SecondsLeft.Value, Used: []use{},
		Outcome: in.Outcome.Value,
		Reason:  in.Reason.Value}
	if name, err := url.PathUnescape(value.OrZero(j.File)); j.File != nil && err == nil && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(c rune) bool { return c == 0 || value.IsDirection(c) }) {
		j.File = &name
	}
	for _, u := range in.Used {
		j.Used = append(j.Used, use{Tool: u.Tool.Value, Slot: u.Slot.Value, Millimetres: u.Millimetres.Value,
			Grams: u.Grams.Value})
	}
	if old == nil || old.ID != j.ID {
		return j
	}
	j.File, j.Plate, j.SHA256 = cmp.Or(j.File, old.File), cmp.Or(j.Plate, old.Plate), cmp.Or(j.SHA256, old.SHA256)
	j.StartedAt, j.Reason = cmp.Or(j.StartedAt, old.StartedAt), cmp.Or(j.Reason, old.Reason)
	if !old.lost() {
		j.Outcome = cmp.Or(j.Outcome, old.Outcome)
	}
	atLeast(&j.Elapsed, old.Elapsed)
	atLeast(&j.Progress, old.Progress)
	for i := range j.Used {
		j.Used[i].From = j.Progress
	}
	for _, was := range old.Used {
		i := slices.IndexFunc(j.Used, func(u use) bool { return u.slot() == was.slot() })
		if i < 0 {
			j.Used = append(j.Used, was)
			continue
		}
		j.Used[i].From = was.From
		atLeast(&j.Used[i].Millimetres, was.Millimetres)
		atLeast(&j.Used[i].Grams, was.Grams)
	}
	slices.SortStableFunc(j.Used, func(a, b use) int { return cmp.Compare(value.OrZero(a.From), value.OrZero(b.From)) })
	return j
}

// lost reports whether the end of the job was not seen. It may still print.
func (j *job) lost() bool { return j.Outcome != nil && *j.Outcome == "unknown" }

// atLeast sets a value that is unknown or less than its old value to that one.
func atLeast(v **value.Decimal, old *value.Decimal) {
	if *v == nil || old != nil && **v < *old {
		*v = old
	}
}

func (s *SentState) loaded() []slot {
	if s.Slots == nil {
		return nil
	}
	all := []slot{}
	for _, in := range s.Slots {
		tag := in.Tag.Value
		if strings.Trim(value.OrZero(tag), "0") == "" || in.Empty.Or(false) { // no tag was read
			tag = nil
		}
		all = append(all, slot{in.Slot.Or(""), slotNumber(in.Slot.Or("")), tag, in.Material.Value, in.Color.Value,
			in.Remaining.Value, in.Empty.Or(false), in.Spool.Value, nil})
	}
	return all
}

// known is the stored state of a printer.
type known struct {
	ID       value.UUID       `json:"id"`
	Sequence int64            `json:"sequence"`
	State    PrinterCondition `json:"state"`
	Message  *string          `json:"message"`
	Code     *string          `json:"code"`
	Received *time.Time       `json:"received_at"`
	Job      *job             `json:"job"`
	Slots    []slot           `json:"slots"`
	RunID    *value.UUID      `json:"run_id"` // of the job
	Leased   bool             `json:"leased"` // by another watcher than the one that sends
}

// next returns the state that follows k with the sent state. An idle printer without a job has none; otherwise, a
// printer that says nothing about a job still has the last one.
func (k *known) next(s *SentState) known {
	n := known{ID: k.ID, Sequence: *s.Sequence.Value, State: *s.State.Value, Message: s.Message.Value, Code: s.Code.Value,
		Received: new(time.Now()), Job: s.stored(k.Job), Slots: s.loaded(), RunID: k.RunID}
	if n.Job == nil && n.State != "idle" {
		n.Job = k.Job
	}
	if n.Slots == nil {
		n.Slots = k.Slots
	}
	return n
}

// turns reports whether n is more than a progress of k: another condition, another job, its name or its end.
func (k *known) turns(n *known) bool {
	before, after := k.Job, n.Job
	return k.State != n.State || (before == nil) != (after == nil) ||
		before != nil && (before.ID != after.ID || !reflect.DeepEqual(before.Outcome, after.Outcome) ||
			before.File == nil && after.File != nil)
}

// trays returns the slots of n with another tray or spool than in k, as far as a printer of the service has such slots.
func (k *known) trays(n *known) (all []slot) {
	for _, s := range n.Slots {
		same := false
		if i := slices.IndexFunc(k.Slots, func(was slot) bool { return was.Slot == s.Slot }); i >= 0 {
			was := k.Slots[i]
			s.before = was.Spool
			same = was.Empty == s.Empty && reflect.DeepEqual(was.Tag, s.Tag) && reflect.DeepEqual(was.Spool, s.Spool)
		}
		if s.Number > 0 && !same {
			all = append(all, s)
		}
	}
	return all
}

// The least change of the progress and the least time for which the progress alone is written.
const (
	progressStep = value.DecimalOne / 100
	progressTime = 30 * time.Second
)

// differs reports whether n has something new that is worth a write.
func (k *known) differs(n *known) bool {
	if !reflect.DeepEqual(k.Message, n.Message) || !reflect.DeepEqual(k.Code, n.Code) ||
		!reflect.DeepEqual(k.Slots, n.Slots) {
		return true
	}
	switch {
	case n.Job == nil:
		return false
	case len(n.Job.Used) > len(k.Job.Used): // which has begun now
		return true
	case k.Received == nil || n.Received.Sub(*k.Received) < progressTime:
		return false
	}
	return value.OrZero(n.Job.Progress)-value.OrZero(k.Job.Progress) >= progressStep
}

// row returns the state as a row for json_to_recordset.
func (k *known) row(s *SentState) map[string]any {
	row := map[string]any{"id": k.ID, "sequence": k.Sequence, "state": k.State, "message": s.Message.Arg(),
		"code": s.Code.Arg(), "printer_at": s.PrinterAt.Arg(), "observed_at": s.ObservedAt.Arg(), "slots": k.Slots}
	if k.Job != nil {
		row["job"], row["job_id"] = k.Job, k.Job.ID
	}
	return row
}

// knownColumns selects the fields of known, from printer_states s and printer_jobs j.
const knownColumns = `coalesce(s.sequence, 0) as sequence, coalesce(s.state, 'unknown') as state, s.message, s.code,
	s.received_at, s.job::json as job, s.slots::json as slots, j.run_id`

const joinJob = ` left join printer_jobs j on j.printer_id = s.id and j.job = s.job_id`

var sendStatesDoc = &server.Doc{
	ID: "createPrinterStates", Tag: watchTag, Summary: "Send states of printers",
	Description: "Takes up to 1,000 states of any printers of the farm. Each has its own result: `accepted`, `duplicate` " +
		"if its `sequence` is not greater than that of the stored state, or `refused` with an `error` if there is no such " +
		"printer, if another watcher than `watcher` has its lease, or if its `sequence` is more than a day after the " +
		"current time in microseconds, so that later states could not follow. A state that says nothing new changes " +
		"nothing: progress alone is stored at most every 30 seconds, when it has grown by 1 %. Also accepts API keys of " +
		"the role `watcher`.\n\n" +
		"A job that prints starts the run that it is: the run in progress with this job; else the run in progress, or the " +
		"earliest pending run in the queue, on this printer, whose product was made from the file (by its name or its " +
		"SHA-256, and its plate); else a new run of the product that was made from the file, or that a person gave to the " +
		"last run of the file, or without an item. A job belongs to one run at most, and a run to one job. What is not " +
		"certain is left to a person: `run_id` is null, `question` of the printer's state is true with the job in `asked`, " +
		"and `answerPrinterQuestion` answers, also after the end of the job. A job that was already printing when the " +
		"watcher first saw the printer (`adopted`), and one that nobody may have started (`certain` is false), never take a " +
		"pending run by themselves, and one without a file asks until a later state has its name.\n\n" +
		"The run is `paused` and continues with its job. When the job ends, the run gets its hours and its grams, and " +
		"`usage_source` says where the grams come from: `reports` of the printer by Spoolman's API, which are never " +
		"deducted twice; else `grams` or `length` that the printer used; else the `estimate` by progress. Then a " +
		"`completed` or `cancelled` job completes or cancels its run. A run waits for a person (`needs=confirmation`) if " +
		"its job has failed; if the end was missed (`unknown`), until the job goes on or ends; if the grams are unknown, " +
		"more than twice or, of a completed job, less than half of the estimate, or, without one, more than the spools " +
		"had; if the filament came from a slot with another spool; if the print took more than 30 days; or always, with " +
		"the setting `confirm_runs`.\n\n" +
		"When the `tag` of one of the `slots` changes, the spool that has the tag is loaded into this slot, as " +
		"`loadPrinterSlot` does, unless it is removed or archived. A slot that becomes empty, or gets a tag of no spool, " +
		"unloads a spool that has another tag. A tag is that of the spool that `loadPrinterSlot` has last loaded into its " +
		"slot; a tag of zeros is none. When the `spool_number` of the slot `T0` of a printer with one slot changes, the " +
		"spool with the number is loaded; without one, the spool that the printer has named before is unloaded.",
	Request: `{"states":[{"printer_id":"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a71","sequence":1705312800000000,` +
		`"state":"printing","job":{"id":"0000BF-1705309200","file":"dragon.gcode","progress":0.4,"seconds_left":5400}}]}`,
}

var (
	errNoPrinter = &StateError{"UNKNOWN_REFERENCE", "printer_id is not the id of a printer"}
	errLeased    = &StateError{"LEASED", "Another watcher has the lease of the printer"}
	errAhead     = &StateError{"SEQUENCE_AHEAD",
		"sequence must not be more than a day after the current time in microseconds"}
)

// refusal returns why the state s of the printer k, which may be nil, is refused, or nil.
func (k *known) refusal(s *SentState) *StateError {
	switch {
	case k == nil:
		return errNoPrinter
	case k.Leased:
		return errLeased
	case *s.Sequence.Value > time.Now().AddDate(0, 0, 1).UnixMicro(): // later states would all be duplicates
		return errAhead
	}
	return nil
}

func (h handlers) sendStates(ctx context.Context, r *server.Request[SentStates]) (server.OK[StateResults], error) {
	states := r.In.States
	results := make([]StateResult, len(states))
	var ids []string
	for i, s := range states {
		results[i] = StateResult{PrinterID: *s.PrinterID.Value, Sequence: *s.Sequence.Value, Outcome: "accepted"}
		ids = append(ids, string(results[i].PrinterID))
	}
	read := db.SQL(`
		select p.id, `+knownColumns+`, coalesce(l.watcher <> $2 and l.expires_at > clock_timestamp(), false) as leased
		from printers p left join printer_states s on s.id = p.id`+joinJob+`
		left join printer_leases l on l.id = p.id
		where p.id = any($1::uuid[]) and p.hidden_at is null`, ids, r.In.Watcher.Arg())
	if err := h.db.Read(ctx, read); err != nil {
		return nil, err
	}
	var all []known
	if err := json.Unmarshal(read.Array(), &all); err != nil {
		return nil, err
	}
	byPrinter := map[value.UUID]*known{}
	for i := range all {
		byPrinter[all[i].ID] = &all[i]
	}
	progress, turned := map[value.UUID]map[string]any{}, map[value.UUID][]int{}
	trays := map[value.UUID]bool{} // printers with other trays than before
	for i := range states {
		s, result := &states[i], &results[i]
		k := byPrinter[result.PrinterID]
		if result.Error = k.refusal(s); result.Error != nil {
			result.Outcome = "refused"
			continue
		}
		n := k.next(s)
		trays[k.ID] = trays[k.ID] || len(k.trays(&n)) > 0
		if turned[k.ID] != nil {
			turned[k.ID] = append(turned[k.ID], i)
			continue
		}
		result.RunID = k.RunID
		switch {
		case n.Sequence <= k.Sequence:
			result.Outcome = "duplicate"
		case k.turns(&n) || k.Sequence == 0 || trays[k.ID]:
			turned[k.ID] = []int{i}
		case k.differs(&n):
			progress[k.ID], *k = n.row(s), n
		}
	}
	if err := h.saveProgress(ctx, progress); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(turned)) { // all requests lock rows in this order
		for _, i := range turned[id] {
			err := h.db.Tx(ctx, func(ctx context.Context) error {
				if trays[id] {
					if err := h.db.Write(ctx, printers.LockSlots()); err != nil {
						return err
					}
				}
				return h.turn(ctx, &states[i], &results[i])
			})
			var problem *server.Error
			if errors.As(err, &problem) && problem.Status < 500 {
				results[i].Outcome, results[i].Error = "refused", &StateError{problem.Code, problem.Detail}
			} else if err != nil {
				return nil, err
			}
		}
	}
	return server.Encode(StateResults{results})
}

// saveProgress stores states that change neither the condition nor the job of their printers.
func (h handlers) saveProgress(ctx context.Context, states map[value.UUID]map[string]any) error {
	if len(states) == 0 {
		return nil
	}
	var rows []map[string]any
	for _, id := range slices.Sorted(maps.Keys(states)) {
		rows = append(rows, states[id])
	}
	return h.db.Write(ctx, db.SQL(`
		with locked as materialized (
			select n.* from (`+newStates+`) n join printer_states s on s.id = n.id order by s.id for no key update of s
		)
		update printer_states s set `+setState+`
		from locked n
		where s.id = n.id and s.sequence < n.sequence and s.state = n.state
			and s.job_id is not distinct from n.job_id`, db.Recordset(rows)))
}

// newStates selects the rows of the first argument, the results of known.row.
const newStates = `
			select * from json_to_recordset($1::json) n (id uuid, sequence bigint, state text, message text, code text,
				printer_at timestamptz, observed_at timestamptz, job json, job_id text, slots json)`

// setState assigns a row of newStates to a row of printer_states.
const setState = `sequence = n.sequence, state = n.state, message = n.message, code = n.code,
			printer_at = n.printer_at, observed_at = n.observed_at, received_at = clock_timestamp(),
			changed_at = case when s.state = n.state then s.changed_at else clock_timestamp() end,
			job = n.job::text, job_id = n.job_id, slots = n.slots::text`

// LeaseRequest is the body of leasePrinters.
type LeaseRequest struct {
	Watcher  value.Optional[string]                    `json:"watcher" rule:"required,maxLength=100,trim"`
	Printers value.Optional[value.Several[value.UUID]] `json:"printer_ids" rule:"required"`
	States   value.Optional[bool]                      `json:"with_states" rule:"notNull"`
}

// Lease is the response to leasePrinters.
type Lease struct {
	Watcher  string                                    `json:"watcher" rule:"notNull"`
	Printers value.Optional[value.Several[value.UUID]] `json:"printer_ids" rule:"readOnly,notNull"`
	States   []LeasedState                             `json:"states" rule:"notNull"`
}

// LeasedState is the last state of a leased printer, for a watcher that begins. Its job is the last one of the printer.
type LeasedState struct {
	PrinterID  value.UUID       `json:"printer_id" rule:"notNull"`
	Sequence   int64            `json:"sequence" rule:"notNull"`
	State      PrinterCondition `json:"state" rule:"notNull"`
	ObservedAt value.Timestamp  `json:"observed_at" rule:"notNull"`
	Job        *PrinterJob      `json:"job"`
	Slots      []LeasedSlot     `json:"slots" rule:"notNull"`
}

var leaseDoc = &server.Doc{
	ID: "leasePrinters", Tag: watchTag, Summary: "Take leases of printers",
	Description: "Returns those of the printers that this watcher may watch for the next 60 seconds: a printer has one " +
		"watcher at a time. `watcher` is a name that no other watcher of the farm has. Repeat the request in time; a " +
		"watcher that stops loses its printers. With `with_states`, `states` has the last states of these printers, so that " +
		"a watcher that begins knows which job it has seen. Also accepts API keys of the role `watcher`.",
	Request: `{"watcher":"raspberry","printer_ids":["0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a71"]}`,
}

func (h handlers) lease(ctx context.Context, r *server.Request[LeaseRequest]) (server.OK[Lease], error) {
	leases := db.SQL(`
		with leased as (
			insert into printer_leases as l (id, watcher, expires_at)
			select p.id, $1, clock_timestamp() + interval '60 seconds' from printers p
			where p.id = any($2::uuid[]) and p.hidden_at is null order by p.id for key share
			on conflict (tenant_id, id) do update set watcher = excluded.watcher, expires_at = excluded.expires_at
			where l.watcher = excluded.watcher or l.expires_at < clock_timestamp()
			returning id
		)
		select $1 as watcher, coalesce(json_agg(l.id order by l.id), '[]') as printer_ids,
			coalesce(json_agg(json_build_object('printer_id', s.id, 'sequence', s.sequence, 'state', s.state,
				'observed_at', to_char(coalesce(s.observed_at, s.received_at) at time zone 'UTC',
					'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
				'job', coalesce(s.job, j.details)::json, 'slots', coalesce(s.slots, '[]')::json) order by s.id)
				filter (where s.id is not null), '[]') as states
		from leased l
		left join printer_states s on $3 and s.id = l.id and s.sequence > 0
		left join lateral (
			select j.details from printer_jobs j where j.printer_id = s.id and s.job is null
			order by j.created_at desc limit 1) j on true`,
		r.In.Watcher.Arg(), r.In.Printers.Arg(), r.In.States.Or(false))
	return server.One(leases, h.db.Write(ctx, leases))
}

// PrinterState is the last state of a printer.
type PrinterState struct {
	ID         value.UUID       `json:"id" rule:"notNull"`
	Printer    string           `json:"printer_name" rule:"notNull"`
	Status     printers.Status  `json:"printer_status" rule:"notNull,named=PrinterStatus"`
	Due        bool             `json:"maintenance_due" rule:"notNull,unsorted"`
	Sequence   int64            `json:"sequence" rule:"notNull"`
	State      PrinterCondition `json:"state" rule:"notNull"`
	Message    string           `json:"message"`
	Code       string           `json:"code"`
	PrinterAt  value.Timestamp  `json:"printer_at"`
	ObservedAt value.Timestamp  `json:"observed_at"`
	ReceivedAt value.Timestamp  `json:"received_at"`
	ChangedAt  value.Timestamp  `json:"changed_at"`
	Watched    bool             `json:"watched" rule:"notNull"`
	RunID      value.UUID       `json:"run_id"`
	Question   bool             `json:"question" rule:"notNull"`
	Candidates []RunCandidate   `json:"candidates" rule:"notNull,unsorted"`
	Needs      bool             `json:"needs_person" rule:"notNull"`
	Job        *PrinterJob      `json:"job" rule:"unsorted"`
	Asked      *PrinterJob      `json:"asked" rule:"unsorted"`
	Slots      []PrinterSlot    `json:"slots" rule:"notNull"`
	CreatedAt  value.Timestamp  `json:"created_at" rule:"notNull"`
}

// RunCandidate is a run that the job of an open question may be.
type RunCandidate struct {
	RunID value.UUID `json:"run_id" rule:"notNull"`
	Title string     `json:"title" rule:"notNull"`
}

const printerStateColumns = `id, printer_name, printer_status, maintenance_due, sequence, state, message, code,
	printer_at, observed_at, received_at, changed_at, watched, run_id, question, candidates, needs_person, job, asked,
	slots, created_at`

// printerStatesTable has the printers that are not removed, with their states.
var printerStatesTable = `(select p.tenant_id, p.id, p.name as printer_name, p.status as printer_status,
		(select printers.maintenance_due from ` + printers.Table + ` where printers.id = p.id) as maintenance_due,
		coalesce(s.sequence, 0) as sequence, coalesce(s.state, 'unknown') as state, s.message, s.code, s.printer_at,
		s.observed_at, s.received_at, s.changed_at, coalesce(l.expires_at > now(), false) as watched, j.run_id,
		a.details is not null as question,
		coalesce((select json_agg(json_build_object('run_id', c.id, 'title', c.title) order by c.place)
			from (select *, row_number() over (order by pending, not named, queue_position, created_at, id) as place
				from ` + candidatesOf("p.id", "a.details::json ->> 'file'", "a.details::json ->> 'sha256'",
	"(a.details::json ->> 'plate')::int") + ` c where a.details is not null order by place limit 10) c), '[]') as candidates,
		coalesce(s.state = 'attention', false) or a.details is not null as needs_person,
		s.job::json as job, a.details::json as asked, ` + shownSlots + ` as slots, p.created_at
	from printers p
	left join printer_states s on s.id = p.id and s.sequence > 0
	left join printer_leases l on l.id = s.id` + joinJob + `
	left join lateral (
		select a.details from printer_jobs a where a.printer_id = p.id and a.asked order by a.created_at limit 1
	) a on true
	where p.hidden_at is null) printer_states`

// shownSlots is a SQL expression: the slots of the state s of the printer p. A slot is unknown if the printer says that
// a spool is in it, and nobody has loaded one.
const shownSlots = `coalesce((
		select json_agg(e.slot || jsonb_build_object('unknown', not (e.slot ->> 'empty')::boolean
			and coalesce(e.slot ->> 'tag', e.slot ->> 'material', '') <> ''
			and (e.slot ->> 'number')::int between 1 and p.slots and not exists (select from printer_slots l
				where l.printer_id = p.id and l.slot = (e.slot ->> 'number')::int)) order by e.place)
		from jsonb_array_elements(s.slots::jsonb) with ordinality e (slot, place)), '[]')`

// StateFilter selects states of printers.
type StateFilter struct {
	IDs    value.Optional[value.Several[value.UUID]]   `query:"ids"`
	Status value.Optional[value.Set[printers.Status]]  `query:"printer_status" rule:"named=PrinterStatus"`
	State  value.Optional[value.Set[PrinterCondition]] `query:"state"`
	Asked  value.Optional[bool]                        `query:"question"`
	Needs  value.Optional[bool]                        `query:"needs_person"`
}

var listStatesDoc = &server.Doc{
	ID: "listPrinterStates", Tag: watchTag, Summary: "List the states of printers",
	Description: "Returns each printer with its last state. The `state` of a printer that nobody has watched is " +
		"`unknown`, and its `sequence` 0. While no watcher has a lease of the printer, `watched` is false, and the state " +
		"may be old. `candidates` are the likely answers to an open question, the likeliest first. `job` is what the " +
		"printer prints, or its last job; `asked` is its oldest job about which a person is asked, which may have " +
		"ended before.",
}

// among selects the states of the printers with the ids, or the others, which indexes find.
func among(l *server.List, filter value.Optional[bool], ids string) {
	switch {
	case filter.IsNull():
	case *filter.Value:
		l.And("id in (" + ids + ")")
	default:
		l.And("id not in (" + ids + ")")
	}
}

func (f StateFilter) list() *server.List {
	l := server.NewList(printerStatesTable, printerStateColumns, "", "")
	l.Computed()
	if !f.IDs.IsNull() {
		l.Where("id = any(?::uuid[])", f.IDs.Arg())
	}
	l.WhereOneOf("printer_status", f.Status)
	l.WhereOneOf("state", f.State)
	const asked = "select printer_id from printer_jobs where asked"
	among(l, f.Asked, asked)
	among(l, f.Needs, asked+" union all select id from printer_states where state = 'attention'")
	return l
}

// StateChange is a change of the state of a printer.
type StateChange struct {
	ID        value.UUID       `json:"id" rule:"notNull"`
	PrinterID value.UUID       `json:"printer_id" rule:"notNull"`
	State     PrinterCondition `json:"state" rule:"notNull"`
	Message   string           `json:"message"`
	Code      string           `json:"code"`
	File      string           `json:"file"`
	Outcome   JobOutcome       `json:"outcome"`
	CreatedAt value.Timestamp  `json:"created_at" rule:"notNull"`
}

// ChangeFilter selects changes of the states of printers.
type ChangeFilter struct {
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
}

var listChangesDoc = &server.Doc{
	ID: "listPrinterStateChanges", Tag: watchTag, Summary: "List the changes of the states of printers",
	Description: "Returns when printers changed to another state, job or outcome, newest first. Changes are deleted " +
		"after 30 days.",
}

func (f ChangeFilter) list() *server.List {
	l := server.NewList("printer_state_changes", `id, printer_id, state, message, code, file, outcome, created_at`,
		"", "")
	l.WhereEqual("printer_id", f.PrinterID)
	return l
}

// TrimStates deletes old changes of states of all tenants, and jobs that belong to no run.
func TrimStates(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error {
		const many = 10_000
		for {
			changes := db.SQL(`delete from printer_state_changes where id in (
				select id from printer_state_changes where created_at < now() - interval '30 days'
				order by created_at, id limit $1) returning id`, many)
			jobs := db.SQL(`delete from printer_jobs where (printer_id, job) in (
				select j.printer_id, j.job from printer_jobs j where j.run_id is null
					and j.created_at < now() - interval '90 days'
					and not exists (select from printer_states s where s.id = j.printer_id and s.job_id = j.job)
				order by j.created_at limit $1) returning job`, many)
			if err := d.Write(ctx, changes, jobs); err != nil || changes.Rows() < many && jobs.Rows() < many {
				return err
			}
		}
	})
}
