package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// UsageReversal is the request to reverse an entry of the usage ledger.
type UsageReversal struct {
	Reason value.Optional[string] `json:"reason" rule:"maxLength=10000"`
}

// UsageMove is the request to move use to another spool.
type UsageMove struct {
	SpoolID     value.Optional[value.UUID] `json:"spool_id" rule:"notNull"`
	SpoolNumber value.Optional[int64]      `json:"spool_number" rule:"notNull,insteadOf=spool_id,minimum=1,maximum=999999999"`
	Reason      value.Optional[string]     `json:"reason" rule:"maxLength=10000"`
}

// field returns the name of the field that names the spool.
func (m *UsageMove) field() string {
	if m.SpoolNumber.IsNull() {
		return "spool_id"
	}
	return "spool_number"
}

// UsageCorrection is an entry of the usage ledger that corrects another entry, with the spool's state after the
// correction.
type UsageCorrection struct {
	Usage
	Remaining value.Decimal  `json:"remaining_weight_grams" rule:"notNull"`
	Warnings  []UsageWarning `json:"warnings" rule:"notNull"`
}

// UsageWarning is an effect of a UsageCorrection that the user may not expect.
type UsageWarning struct {
	Code   UsageWarningCode `json:"code" rule:"notNull"`
	Detail string           `json:"detail" rule:"notNull"`
	Grams  value.Decimal    `json:"grams" rule:"notNull"`
}

// UsageWarningCode is the kind of a UsageWarning.
type UsageWarningCode string

// Enum returns all codes.
func (UsageWarningCode) Enum() []string {
	return []string{"FILAMENT_SHORTFALL", "OVER_NET_WEIGHT", "WEIGHED_SINCE"}
}

// MovedUsage is the response to a UsageMove.
type MovedUsage struct {
	Reversed UsageCorrection `json:"reversed" rule:"notNull"`
	Recorded UsageCorrection `json:"recorded" rule:"notNull"`
}

// The errors of reversals and moves.
var (
	errReversed = server.Conflict("USAGE_ALREADY_REVERSED", "The entry %s already reversed this one",
		"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a45")
	errOfRun = server.Conflict("USAGE_OF_RUN",
		"The production run %s counts the grams of the entry; correct what the run used instead",
		"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")
	errNotReversible = server.Conflict("USAGE_NOT_REVERSIBLE", "The entry %s",
		language.Sprintf(errIsReversal))
	errNotUse = server.Conflict("USAGE_NOT_MOVABLE",
		"Only use can be moved: an entry of the kind deducted or printed that took filament from the spool")
	errSameSpool     = server.BadRequest("SAME_SPOOL", "The entry is one of this spool").On("spool_id")
	errUnknownTarget = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a spool", "spool_id").On("spool_id")
)

const (
	errIsReversal language.Text = "reverses another one; to take that back, record the change again"
	errIsRefill   language.Text = "is part of a refill; edit or weigh the spool"
	errIsFirst    language.Text = "is the first one of its spool; edit or weigh the spool, or remove it"
	errIsBalance  language.Text = "balances another one at a weighing; reverse that one, or the weighing"
)

const reversalRules = "The new entry has the kind of the first one and its grams with the other sign, also " +
	"`shortfall_grams`. Its `reverses_id` names the first one, which does not change, and whose `reversed_by_id` " +
	"names the new one. Reports count both on the day of the first one, so that they cancel out; those of past days " +
	"follow within about an hour. An entry of a printer that was reversed does not grow any more.\n\n" +
	"An entry is reversed once (`USAGE_ALREADY_REVERSED`). The first entry of a spool and a reversal cannot be " +
	"reversed (`USAGE_NOT_REVERSIBLE`): to take a reversal back, record the change again. What a production run has " +
	"used is corrected through the run (`USAGE_OF_RUN`); this includes use outside of the run that it counts.\n\n" +
	"If a spool was weighed after the entry, or its remaining weight was edited, it keeps its weight " +
	"(`WEIGHED_SINCE`): one more entry, with the kind and the day of the weighing, balances the grams. Its " +
	"`balances_id` names the entry that it balances, and its `weighing_id` the weighing. To reverse the weighing also " +
	"takes back what is balanced at it."

const correctionWarnings = "`warnings` has `OVER_NET_WEIGHT` if the spool has more than its `net_weight_grams` " +
	"then. It has `FILAMENT_SHORTFALL` if the spool has less than the entry takes: the spool is empty then, and the " +
	"entry keeps the other grams in `shortfall_grams`."

var reverseDoc = &server.Doc{
	ID: "reverseSpoolUsage", Tag: SpoolsTag, Summary: "Reverse an entry of a spool's usage",
	Description: "Takes back a change of the spool's remaining weight, by a second entry. " + reversalRules + "\n\n" +
		correctionWarnings + " A spool has at most 1,000,000 g; the entry keeps what it cannot have, too.\n\n" +
		"The spool may be archived or removed. The body may be empty.",
	Errors: []*server.Error{errReversed, errOfRun, errNotReversible},
}

var moveDoc = &server.Doc{
	ID: "moveSpoolUsage", Tag: SpoolsTag, Summary: "Move use to another spool",
	Description: "Reverses an entry, as `reverseSpoolUsage` does, and records the same use on the spool that " +
		"`spool_id` or `spool_number` names, in one transaction. The entry there has the kind, the `reason` and the " +
		"printer of the first one, which its `moves_id` names, and reports count it on the same day. The `reason` of the " +
		"request is that of the reversal.\n\n" + reversalRules + "\n\n" + correctionWarnings + "\n\n" +
		"Only use can be moved (`USAGE_NOT_MOVABLE`): entries of the kinds `deducted` and `printed` that took filament. " +
		"The spool that had it may be archived or removed; the other one may be archived.",
	Errors: []*server.Error{errReversed, errOfRun, errNotReversible, errNotUse, errSameSpool, errUnknownTarget},
}

// ledgerEntry is an entry to correct. It has columns of the ledger that Usage does not have.
type ledgerEntry struct {
	ID         string
	SpoolID    string         `json:"spool_id"`
	Kind       string         `json:"kind"`
	RunID      *string        `json:"run_id"`      // of the entry, or that of a run that counts it
	ReversesID *string        `json:"reverses_id"` // the entry that it reverses
	ReversedBy *string        `json:"reversed_by_id"`
	Change     value.Decimal  `json:"change_grams"`
	Shortfall  *value.Decimal `json:"shortfall_grams"`
	WeighingID *string        `json:"weighing_id"`    // if the entry balances another one
	Balanced   value.Decimal  `json:"balanced_grams"` // by entries that balance others at this one
	Reason     *string        `json:"reason"`
	PrinterID  *string        `json:"printer_id"`
	ReporterID *string        `json:"reporter_id"`
	UsedAt     string         `json:"used_at"`
}

// use returns the grams that reports count for the entry: as use, or as correction if the entry is of weighing or an
// edit.
func (e *ledgerEntry) use() value.Decimal { return value.OrZero(e.Shortfall) - e.Change }

// reversible returns why the entry cannot be reversed, or nil.
func (e *ledgerEntry) reversible() error {
	switch {
	case e.ReversedBy != nil:
		return errReversed.With(*e.ReversedBy)
	case e.ReversesID != nil:
		return errNotReversible.With(language.Sprintf(errIsReversal))
	case e.WeighingID != nil:
		return errNotReversible.With(language.Sprintf(errIsBalance))
	case e.Kind == "created":
		return errNotReversible.With(language.Sprintf(errIsFirst))
	case e.Kind == "discarded", e.Kind == "refilled":
		return errNotReversible.With(language.Sprintf(errIsRefill))
	case e.RunID != nil:
		return errOfRun.With(*e.RunID)
	}
	return nil
}

// movable returns why the entry cannot be moved, or nil.
func (e *ledgerEntry) movable() error {
	if err := e.reversible(); err != nil {
		return err
	}
	if e.Kind != "deducted" && e.Kind != "printed" || e.use() <= 0 {
		return errNotUse
	}
	return nil
}

type heldSpool struct {
	ID        string
	Number    int64
	Name      string
	Remaining value.Decimal `json:"remaining_weight_grams"`
	Net       value.Decimal `json:"net_weight_grams"`
	Weighed   *Weighing     `json:"weighed"` // after the moment of the entry to correct
	Hidden    bool
}

const (
	mostGrams     = 1_000_000 * value.DecimalOne   // on a spool
	mostShortfall = 999_999_999 * value.DecimalOne // in an entry
)

// correct returns statements that add an entry to the ledger of the spool, and read the new entry. The new entry has
// the kind, printer and time of the entry first, and names first in the column link. Reports count use grams for it.
// The weight of the spool changes by grams, within its limits. If first is a weighing, what others have balanced at it
// is taken back, too. A later weighing keeps the weight of the spool.
func (s *heldSpool) correct(
	first *ledgerEntry, link string, use, grams value.Decimal, reason *string,
) (stmts []*db.Stmt, entry *db.Stmt, warnings []UsageWarning) {
	balanced := -first.Balanced
	if link == "moves_id" {
		balanced = 0
	}
	start := s.Weighed.From(s.Remaining)
	after := min(max(start+grams+balanced, 0), mostGrams)
	shortfall := min(max(use+after-balanced-start, -mostShortfall), mostShortfall)
	warn := func(code UsageWarningCode, grams value.Decimal, format language.Text, args ...any) {
		warnings = append(warnings, UsageWarning{code, language.Sprintf(format, args...), grams})
	}
	if s.Weighed != nil {
		warn("WEIGHED_SINCE", after-start, "%s (spool %d) was weighed after that, and keeps %s g", s.Name, s.Number,
			s.Remaining)
	} else if short := after - (start + grams + balanced); short > 0 {
		warn("FILAMENT_SHORTFALL", short,
			"%s (spool %d) had only %s g on record; %s g more were taken, so it is now empty", s.Name, s.Number,
			s.Remaining, short)
	}
	if over := after - s.Net; s.Weighed == nil && after > start && over > 0 {
		warn("OVER_NET_WEIGHT", over, "%s (spool %d) has %s g now, %s g more than a full one", s.Name, s.Number, after,
			over)
	}
	e := Entry{ID: value.NewID(), Spool: s.ID, Kind: first.Kind, Reason: reason, Before: start, After: after - balanced,
		Shortfall: shortfall, Printer: first.PrinterID, Reporter: first.ReporterID, UsedAt: first.UsedAt}
	if link == "moves_id" {
		e.Moves = first.ID
	} else {
		e.Reverses = first.ID
	}
	entries := []Entry{e}
	if balanced != 0 {
		back := Entry{ID: value.NewID(), Spool: s.ID, Kind: first.Kind, Weighing: first.ID, Balances: e.ID,
			UsedAt: first.UsedAt, Before: after - balanced, After: after}
		if balanced > 0 { // first, so that the weight does not become negative
			back.Before, back.After = start, start+balanced
			entries[0].Before, entries[0].After = back.After, after
			entries = []Entry{back, entries[0]}
		} else {
			entries = append(entries, back)
		}
	}
	stmts = []*db.Stmt{Record(false, s.Weighed.Balance(s.Remaining, entries))}
	if link == "moves_id" {
		stmts = append(stmts, db.SQL(`update spools set first_used_at = least(first_used_at, $2::text::timestamptz),
			last_used_at = greatest(last_used_at, $2::text::timestamptz) where id = $1`, s.ID, first.UsedAt))
	}
	entry = db.SQL(`
		select `+UsageColumns("u")+`, s.remaining_weight_grams
		from spool_usage u join spools s on s.id = u.spool_id where u.id = $1`, e.ID)
	return append(stmts, entry), entry, warnings
}

// correction returns the JSON of a UsageCorrection.
func correction(entry *db.Stmt, warnings []UsageWarning) ([]byte, error) {
	if warnings == nil {
		warnings = []UsageWarning{}
	}
	list, err := json.Marshal(warnings)
	if err != nil {
		return nil, err
	}
	fields := entry.Object()
	b := append([]byte(nil), fields[:len(fields)-1]...)
	return append(append(append(b, `,"warnings":`...), list...), '}'), nil
}

// correcting is a request that corrects the entry of a spool.
type correcting struct {
	entry  *ledgerEntry
	from   *heldSpool
	spools []heldSpool
}

// correct corrects an entry of a spool in one transaction. It locks the spool and, for a UsageMove, the other spool,
// in the order of their ids. Then it reads both spools and the entry, and runs the statements that decide returns.
func (h handlers) correct(
	ctx context.Context, spool, id string, other UsageMove, decide func(correcting) ([]*db.Stmt, error),
) error {
	const ids = `
		(select s.id from spools s where s.id = $1)
		union all
		(select s.id from spools s where s.id = $2::uuid)
		union all
		(select s.id from spools s where s.number = $3::int)`
	named := []any{spool, other.SpoolID.Arg(), other.SpoolNumber.Arg()}
	moment := weighingSince("s.id", "(select coalesce(u.used_at, u.created_at) from spool_usage u where u.id = $4)")
	locked := server.LockRows("spools", "id", ids, "true", named...)
	spools := db.SQL(`
		select s.id, s.number, spool_name(s.material_type, s.material_name, s.color, s.brand) as name,
			s.remaining_weight_grams, s.net_weight_grams, s.hidden_at is not null as hidden, `+moment+` as weighed
		from (`+ids+`) held join spools s on s.id = held.id`, append(named, id)...)
	entry := db.SQL(`
		select u.id, u.spool_id, u.kind, u.reverses_id, u.change_grams, u.shortfall_grams, u.reason, u.printer_id,
			u.weighing_id, coalesce((select sum(b.change_grams) from spool_usage b
				where b.spool_id = u.spool_id and b.weighing_id = u.id), 0) as balanced_grams,
			(select v.id from spool_usage v where v.reverses_id = u.id) as reversed_by_id,
			coalesce(u.run_id, u.counted_run_id,
				counting_run(u.spool_id, coalesce(u.used_at, u.created_at), u.created_at)) as run_id,
			case when num_nonnulls(u.reverses_id, u.moves_id) = 0 then u.api_key_id else u.reporter_id end as reporter_id,
			coalesce(u.used_at, u.created_at)::text as used_at
		from spool_usage u where u.id = $2 and u.spool_id = $1`, spool, id)
	return h.db.Decide(ctx, []*db.Stmt{locked, spools, entry}, func() ([]*db.Stmt, error) {
		if entry.Rows() == 0 {
			return nil, server.ErrNotFound
		}
		var c correcting
		if err := json.Unmarshal(entry.Object(), &c.entry); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(spools.Array(), &c.spools); err != nil {
			return nil, err
		}
		c.from = &c.spools[slices.IndexFunc(c.spools, func(s heldSpool) bool { return s.ID == c.entry.SpoolID })]
		return decide(c)
	})
}

// reverse returns three things: the statements that reverse the entry; entry, the statement that returns the new entry;
// and warnings.
func (c *correcting) reverse(reason *string) (stmts []*db.Stmt, entry *db.Stmt, warnings []UsageWarning) {
	e := c.entry
	return c.from.correct(e, "reverses_id", -e.use(), -e.Change, reason)
}

// audited returns the statement that adds an entry for the correction to the audit log.
func (c *correcting) audited(action string) *db.Stmt {
	return db.SQL(`select audit_add($1, 'spool', $2, $3)::text`, action, c.from.ID,
		fmt.Sprintf("#%d %s", c.from.Number, c.from.Name))
}

func (h handlers) reverse(ctx context.Context, r *server.Request[UsageReversal]) (server.OK[UsageCorrection], error) {
	var entry *db.Stmt
	var warnings []UsageWarning
	err := h.correct(ctx, r.ID("id"), r.ID("entry_id"), UsageMove{}, func(c correcting) (stmts []*db.Stmt, err error) {
		if err := c.entry.reversible(); err != nil {
			return nil, err
		}
		stmts, entry, warnings = c.reverse(r.In.Reason.Value)
		return append(stmts, c.audited("usage.reversed")), nil
	})
	if err != nil {
		return nil, err
	}
	return correction(entry, warnings)
}

func (h handlers) move(ctx context.Context, r *server.Request[UsageMove]) (server.OK[MovedUsage], error) {
	var reversal, recorded *db.Stmt
	var warnings, otherWarnings []UsageWarning
	err := h.correct(ctx, r.ID("id"), r.ID("entry_id"), r.In, func(c correcting) ([]*db.Stmt, error) {
		i := slices.IndexFunc(c.spools, func(s heldSpool) bool {
			return value.UUID(s.ID) == r.In.SpoolID.Or("") || s.Number == r.In.SpoolNumber.Or(0)
		})
		switch {
		case i < 0 || c.spools[i].Hidden && c.spools[i].ID != c.from.ID:
			return nil, errUnknownTarget.With(r.In.field()).On(r.In.field())
		case c.spools[i].ID == c.from.ID:
			return nil, errSameSpool.On(r.In.field())
		}
		if err := c.entry.movable(); err != nil {
			return nil, err
		}
		to := &c.spools[i]
		stmts, entry, w := c.reverse(r.In.Reason.Value)
		reversal, warnings = entry, w
		use := c.entry.use()
		more, entry, w := to.correct(c.entry, "moves_id", use, -use, c.entry.Reason)
		recorded, otherWarnings = entry, w
		return append(append(stmts, more...), c.audited("usage.moved")), nil
	})
	if err != nil {
		return nil, err
	}
	reversed, err := correction(reversal, warnings)
	if err != nil {
		return nil, err
	}
	added, err := correction(recorded, otherWarnings)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"reversed":`), reversed, []byte(`,"recorded":`), added, []byte(`}`)), nil
}
