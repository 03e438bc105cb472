package production

import (
	"encoding/json"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// RunAction is what happened to a run.
type RunAction string

// Enum returns all actions.
func (RunAction) Enum() []string {
	return []string{"completed", "failed", "cancelled", "corrected", "reopened", "exchanged"}
}

// RunEvent is an entry of the history of a run.
type RunEvent struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	RunID     value.UUID      `json:"run_id" rule:"notNull"`
	Action    RunAction       `json:"action" rule:"notNull"`
	Reason    string          `json:"reason"`
	UserID    value.UUID      `json:"user_id"`
	UserName  string          `json:"user_name" rule:"unsorted"`
	APIKeyID  value.UUID      `json:"api_key_id"`
	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
	Before    RunState        `json:"before" rule:"notNull,unsorted"`
}

// RunState is the state of a run before an action.
type RunState struct {
	Status        RunStatus       `json:"status" rule:"notNull"`
	StartedAt     value.Timestamp `json:"started_at"`
	CompletedAt   value.Timestamp `json:"completed_at"`
	ActualHours   value.Decimal   `json:"actual_print_time_hours"`
	ActualGrams   value.Decimal   `json:"actual_total_filament_grams"`
	FailureReason FailureReason   `json:"failure_reason"`
	FailureNotes  string          `json:"failure_notes"`
	Cost          value.Decimal   `json:"cost"`
	Materials     []MaterialState `json:"materials" rule:"notNull"`
	Items         []ItemState     `json:"items" rule:"notNull"`
}

// MaterialState is the state of a material of a run.
type MaterialState struct {
	ID              value.UUID     `json:"id" rule:"notNull"`
	SpoolID         value.UUID     `json:"spool_id" rule:"notNull"`
	EstimatedWeight *value.Decimal `json:"estimated_weight_grams"`
	ActualWeight    *value.Decimal `json:"actual_weight_grams"`
	CostPerGram     *value.Decimal `json:"cost_per_gram"`
}

// ItemState is the state of an item of a run.
type ItemState struct {
	ID                 value.UUID     `json:"id" rule:"notNull"`
	SuccessfulQuantity *int64         `json:"successful_quantity"`
	FailedQuantity     *int64         `json:"failed_quantity"`
	FailureReason      *FailureReason `json:"failure_reason"`
}

// maxStates is the maximum number of materials, and of items, in an entry of the history. It keeps the text of an
// entry below 100,000 characters.
const maxStates = 150

// remember returns a statement that adds an action to the history of a run. state is the result of run_state before
// the action. The audit log also has corrections. materials are all materials of the run; items are the items that the
// action changes.
func remember(
	run, action string, reason any, state string, materials []MaterialState, items []ItemState,
) (*db.Stmt, error) {
	lists, err := json.Marshal(map[string]any{
		"materials": append([]MaterialState{}, materials[:min(len(materials), maxStates)]...),
		"items":     append([]ItemState{}, items[:min(len(items), maxStates)]...),
	})
	if err != nil {
		return nil, err
	}
	return db.SQL(`
		with added as (
			insert into run_history (id, run_id, action, reason, before) values ($1, $2, $3, $4, $5) returning run_id, action
		)
		select audit_add('run.' || a.action, 'run', a.run_id, r.printer_name)::text
		from added a join production_runs r on r.id = a.run_id where a.action in ('corrected', 'reopened')`,
		value.NewID(), run, action, reason, state[:len(state)-1]+","+string(lists[1:])), nil
}

// remember calls the function remember for the run that r read. The statement must run before the materials and items
// change.
func (r *reading) remember(run, action string, reason any) (*db.Stmt, error) {
	var materials []MaterialState
	for _, m := range r.run.materials {
		materials = append(materials, MaterialState{value.UUID(m.ID), value.UUID(m.SpoolID), m.Estimated, m.Actual, m.Price})
	}
	var items []ItemState
	for _, i := range r.run.items {
		items = append(items, ItemState{value.UUID(i.ID), i.Successful, i.Failed, i.Reason})
	}
	return remember(run, action, reason, r.state, materials, items)
}

var historyDoc = &server.Doc{
	ID: "listProductionRunHistory", Tag: Tag, Summary: "List the history of a run",
	Description: "Lists who ended, corrected or reopened the run, or exchanged a spool in it, when and why, newest " +
		"first. `before` is the state of the run before the action, with its materials, and with the items if the request " +
		"had any. Entries stay.",
}

// HistoryFilter are the parameters of the history of a run.
type HistoryFilter struct {
	Action value.Optional[value.Set[RunAction]] `query:"action"`
}

func (f HistoryFilter) list(run string) *server.List {
	l := server.NewList("run_history", `id, run_id, action, reason, user_id, coalesce(
			(select n.name from users n where n.id = user_id),
			(select n.name from former_users n where n.id = user_id)) as user_name,
		api_key_id, created_at, before::json as before`, "", "")
	l.Where("run_id = ?", run)
	l.WhereOneOf("action", f.Action)
	l.CountOrdered()
	return l
}
