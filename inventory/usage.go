package inventory

import (
	"context"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Deduction is the request to deduct filament.
type Deduction struct {
	Weight value.Optional[value.Decimal] `json:"weight_grams" rule:"required,exclusiveMinimum=0,maximum=1000000"`
	Reason value.Optional[string]        `json:"reason" rule:"maxLength=10000"`

	AllowShortfall value.Optional[bool] `json:"allow_shortfall"`
}

// Deducted is the response to a Deduction.
type Deducted struct {
	ID        value.UUID    `json:"id" rule:"notNull"`
	Remaining value.Decimal `json:"remaining_weight_grams" rule:"notNull"`
	Deducted  value.Decimal `json:"deducted" rule:"notNull"`
	Shortfall value.Decimal `json:"shortfall_grams" rule:"notNull"`
}

var deductDoc = &server.Doc{
	ID: "deductSpool", Tag: SpoolsTag, Summary: "Deduct filament",
	Description: "Deducts filament from a spool and adds an entry to its usage ledger, atomically. If the spool has " +
		"less filament left, returns `INSUFFICIENT_FILAMENT` and changes nothing. With `allow_shortfall`, the spool is " +
		"then empty, and the entry keeps the other grams in `shortfall_grams`: what was used counts as use, whatever " +
		"the spool had on record.",
	Errors: []*server.Error{errInsufficient},
}

var errInsufficient = server.BadRequest("INSUFFICIENT_FILAMENT",
	"The spool has %s g left, less than the %s g to deduct", "30", "45.5").On("weight_grams")

func (h handlers) deduct(ctx context.Context, r *server.Request[Deduction]) (server.OK[Deducted], error) {
	weight := *r.In.Weight.Value
	deducted := db.SQL(`
		with spool as (
			update spools set remaining_weight_grams = remaining_weight_grams - $2::numeric, updated_at = now(),
				first_used_at = coalesce(first_used_at, now()), last_used_at = now()
			where id = $1 and hidden_at is null and remaining_weight_grams >= $2::numeric
			returning id, remaining_weight_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams, reason)
			select id, 'deducted', remaining_weight_grams + $2::numeric, remaining_weight_grams, $3 from spool
		)
		select id, remaining_weight_grams, $2::numeric as deducted, 0 as shortfall_grams from spool`,
		r.ID("id"), weight.String(), r.In.Reason.Arg())
	if err := h.db.Write(ctx, deducted); err != nil {
		return nil, err
	}
	if deducted.Rows() == 1 {
		return deducted.Object(), nil
	}
	// This statement first locks the spool, which takes longer. The lock keeps what is left until it is read.
	locked := db.SQL(`
		with old as ( -- a CTE, so that PostgreSQL compares the weight after the lock
			select id as old_id, remaining_weight_grams as before from spools
			where id = $1 and hidden_at is null for no key update
		), spool as (
			update spools set remaining_weight_grams = greatest(before - $2::numeric, 0), updated_at = now(),
				first_used_at = coalesce(first_used_at, now()), last_used_at = now()
			from old where id = $1 and id = old_id and ($4 or before >= $2::numeric)
			returning id, before, remaining_weight_grams, greatest($2::numeric - before, 0) as shortfall_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams, reason, shortfall_grams)
			select id, 'deducted', before, remaining_weight_grams, $3, nullif(shortfall_grams, 0) from spool
		)
		select id, remaining_weight_grams, before - remaining_weight_grams as deducted, shortfall_grams from spool`,
		r.ID("id"), weight.String(), r.In.Reason.Arg(), r.In.AllowShortfall.Or(false))
	var remaining string
	spool := db.SQL(`select trim_scale(remaining_weight_grams)::text from spools where id = $1 and hidden_at is null`,
		r.ID("id")).Into(&remaining)
	if err := server.Found(spool, h.db.Write(ctx, locked, spool)); err != nil {
		return nil, err
	}
	if locked.Rows() == 1 {
		return locked.Object(), nil
	}
	return nil, errInsufficient.With(remaining, weight)
}

// Measurement is the request to set the remaining weight from a scale.
type Measurement struct {
	Gross     value.Optional[value.Decimal] `json:"gross_grams" rule:"required,maximum=1000000"`
	Confirmed value.Optional[bool]          `json:"confirmed" rule:"default=false"`
	Full      value.Optional[bool]          `json:"full" rule:"default=false"`
}

var measureDoc = &server.Doc{
	ID: "measureSpool", Tag: SpoolsTag, Summary: "Weigh a spool",
	Description: "Sets the remaining weight to `gross_grams`, the weight of the spool with its filament on a scale, " +
		"without `spool_weight_grams`, and at least 0. The ledger entry has the kind `measured`. Returns " +
		"`VALIDATION_ERROR` if the spool has no `spool_weight_grams`, or if the weight is hardly possible: less than the " +
		"empty spool, or filament of more than one and a half full spools. `confirmed` records such a weight.\n\n" +
		"For a spool without `spool_weight_grams` that is full and new, the message has the difference to " +
		"`net_weight_grams`. With `full`, that is its `spool_weight_grams`, and the spool is full.",
}

// notPlausible is the message about an implausible weight on a scale. Web pages recognize Confirm at its end, and
// ask.
const notPlausible = "is %s g, but the empty spool weighs %s g and the full one %s g; " + Confirm

// Confirm is the end of the message about a value that is recorded only if the request confirms it.
const Confirm = "send confirmed if it is right"

// IsFull is the end of the message about a spool whose weights are only known if the request says that it is full.
const IsFull = "send full if it is"

func (h handlers) measure(ctx context.Context, r *server.Request[Measurement]) (server.OK[Spool], error) {
	isFull := r.In.Full.Or(false)
	locked, measured := measure(r.ID("id"), r.In.Gross.Value.String(), r.In.Confirmed.Or(false), isFull)
	spool := selectSpool(r.ID("id"))
	var empty, full, difference *string
	err := h.db.Write(ctx, locked.Into(&empty, &full, &difference), measured, spool)
	if err == nil && locked.Rows() == 1 && measured.Rows() == 0 {
		switch {
		case isFull:
			return nil, server.Invalid("full", "needs a spool without spool_weight_grams, and gross_grams of more than its "+
				"net_weight_grams")
		case empty == nil && difference != nil:
			return nil, server.Invalid("spool_weight_grams", "of the spool must be set before it can be weighed; it is %s g "+
				"if the spool is full and new, "+IsFull, *difference)
		case empty == nil:
			return nil, server.Invalid("spool_weight_grams", "of the spool must be set before it can be weighed")
		}
		return nil, server.Invalid("gross_grams", notPlausible, *r.In.Gross.Value, *empty, *full)
	}
	return server.One(spool, server.Found(locked, err))
}

// UsageKind is the cause of a change of a spool's remaining weight.
type UsageKind string

// Enum returns all kinds.
func (UsageKind) Enum() []string {
	return []string{"created", "edited", "deducted", "run", "measured", "printed", "wasted", "discarded", "refilled"}
}

// Usage is an entry of the usage ledger, about one change of a spool's remaining weight.
type Usage struct {
	ID        value.UUID    `json:"id" rule:"notNull"`
	SpoolID   value.UUID    `json:"spool_id" rule:"notNull"`
	Kind      UsageKind     `json:"kind" rule:"notNull"`
	Reason    string        `json:"reason"`
	RunID     value.UUID    `json:"run_id"`
	UserID    value.UUID    `json:"user_id"`
	UserName  string        `json:"user_name" rule:"unsorted"`
	APIKeyID  value.UUID    `json:"api_key_id"`
	PrinterID value.UUID    `json:"printer_id"`
	Before    value.Decimal `json:"before_grams" rule:"notNull"`
	After     value.Decimal `json:"after_grams" rule:"notNull"`
	Change    value.Decimal `json:"change_grams" rule:"notNull"`
	Shortfall value.Decimal `json:"shortfall_grams"`
	Covered   value.Decimal `json:"covered_grams"`

	ReversesID   value.UUID `json:"reverses_id" rule:"unsorted"`
	ReversedByID value.UUID `json:"reversed_by_id" rule:"unsorted"`
	MovesID      value.UUID `json:"moves_id" rule:"unsorted"`
	WeighingID   value.UUID `json:"weighing_id" rule:"unsorted"`
	BalancesID   value.UUID `json:"balances_id" rule:"unsorted"`

	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
	UpdatedAt value.Timestamp `json:"updated_at"`
}

var usageDoc = &server.Doc{
	ID: "listSpoolUsage", Tag: SpoolsTag, Summary: "List a spool's usage",
	Description: "Lists all changes of the spool's remaining weight, newest first. Entries are never removed, " +
		"and only the newest one can change: consecutive reports of a printer within an hour are one entry, which grows. " +
		"`reverseSpoolUsage` and `moveSpoolUsage` correct an entry by another one.",
}

// usageFilter are the parameters of the list of a spool's usage.
type usageFilter struct {
	Kind        value.Optional[value.Set[UsageKind]] `query:"kind"`
	CreatedFrom value.Optional[value.Moment]         `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]         `query:"created_to"`
}

// userName returns an expression for the name of the user with the id, who may be deleted, or null.
func userName(id string) string {
	return `coalesce((select n.name from users n where n.id = ` + id + `),
		(select n.name from former_users n where n.id = ` + id + `))`
}

// UsageColumns returns the columns of Usage. table is the name of the ledger in the statement.
func UsageColumns(table string) string {
	return strings.ReplaceAll(`u.id, u.spool_id, u.kind, u.reason, u.run_id, u.user_id,
		`+userName("u.user_id")+` as user_name, u.api_key_id, u.printer_id, u.before_grams, u.after_grams, u.change_grams,
		u.shortfall_grams, u.covered_grams,
		u.reverses_id, (select v.id from spool_usage v where v.reverses_id = u.id) as reversed_by_id, u.moves_id,
		u.weighing_id, u.balances_id, u.created_at, u.updated_at`, "u.", table+".")
}

func (f usageFilter) list(spool string) *server.List {
	const entries = "(select *, spool_usage.change_grams from spool_usage) spool_usage" // an order needs a column
	l := server.NewList(entries, UsageColumns("spool_usage"), "", "")
	l.Where("spool_id = ?", spool)
	l.WhereOneOf("kind", f.Kind)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.CountOrdered()
	return l
}
