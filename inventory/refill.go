package inventory

import (
	"context"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// Refill is the request to fill a spool with new filament. Absent fields keep the spool's value, except for
// purchase_date and lot_number, which are then null, and remaining_weight_grams, which is then the net weight.
type Refill struct {
	NetWeight     value.Optional[value.Decimal] `json:"net_weight_grams" rule:"notNull,exclusiveMinimum=0,maximum=1000000"`
	Remaining     value.Optional[value.Decimal] `json:"remaining_weight_grams" rule:"notNull,maximum=1000000"`
	SpoolWeight   value.Optional[value.Decimal] `json:"spool_weight_grams" rule:"maximum=1000000"`
	PurchasePrice value.Optional[value.Decimal] `json:"purchase_price" rule:"maximum=1000000"`
	PurchaseDate  value.Optional[value.Date]    `json:"purchase_date"`
	Supplier      value.Optional[string]        `json:"supplier"`
	LotNumber     value.Optional[string]        `json:"lot_number"`
	Reason        value.Optional[string]        `json:"reason" rule:"maxLength=10000"`
}

var refillDoc = &server.Doc{
	ID: "refillSpool", Tag: SpoolsTag, Summary: "Refill a spool",
	Description: "Closes the contents of a spool and begins new ones. The spool keeps its id, its number, its place and " +
		"its filament; an archived one leaves the archive.\n\n" +
		"The usage ledger gets an entry of the kind `discarded`, with what was left of the old contents, which " +
		"`reportUsage` counts in `lost_grams`, and one of the kind `refilled`, with the new ones. Neither is reversed " +
		"(`USAGE_NOT_REVERSIBLE`). If the rest stays on the spool, add it to `remaining_weight_grams`.\n\n" +
		"`net_weight_grams`, `spool_weight_grams`, `purchase_price` and `supplier` are as before by default, " +
		"`purchase_date` and `lot_number` null, and `remaining_weight_grams` is `net_weight_grams`. What was used of the " +
		"old contents keeps their price in all reports; materials of runs that have not started, and whose price is " +
		"that of the old contents, get the new price.",
}

func (h handlers) refill(ctx context.Context, r *server.Request[Refill]) (server.OK[Spool], error) {
	id, in := r.ID("id"), &r.In
	locked := lockSpool(id)[0]
	closed := db.SQL(`
		with old as materialized (
			select s.*, clock_timestamp() as at from spools s where s.id = $1 and s.hidden_at is null
		), closed as (
			insert into spool_contents (spool_id, closed_at, net_weight_grams, purchase_price, cost_per_gram, purchase_date,
				supplier, lot_number, lot_key)
			select id, at, net_weight_grams, purchase_price, cost_per_gram, purchase_date, supplier, lot_number, lot_key
			from old
		), emptied as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams, reason, created_at)
			select id, 'discarded', remaining_weight_grams, 0, $2, at from old
		)
		select audit_add('spool.refilled', 'spool', o.id, '#' || o.number || ' '
			|| spool_name(o.material_type, o.material_name, o.color, o.brand))::text,
			count_rows('spools', o.archived::int)
		from old o`, id, in.Reason.Arg())
	spool := db.SQL(`
		with spool as (
			update spools set net_weight_grams = coalesce($2::numeric, net_weight_grams),
				remaining_weight_grams = coalesce($3::numeric, $2::numeric, net_weight_grams),
				spool_weight_grams = case when $4 then $5::numeric else spool_weight_grams end,
				purchase_price = case when $6 then $7::numeric else purchase_price end,
				supplier = case when $8 then $9 else supplier end,
				purchase_date = $10::date, lot_number = $11, archived = false, updated_at = now(), edited_at = now()
			where id = $1 and hidden_at is null
			returning `+spoolFields+`
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams, reason)
			select id, 'refilled', 0, remaining_weight_grams, $12 from spool
		)
		select `+spoolColumns+` from spool`, id, in.NetWeight.Arg(), in.Remaining.Arg(), in.SpoolWeight.Set,
		in.SpoolWeight.Arg(), in.PurchasePrice.Set, in.PurchasePrice.Arg(), in.Supplier.Set, in.Supplier.Arg(),
		in.PurchaseDate.Arg(), in.LotNumber.Arg(), in.Reason.Arg())
	return server.One(spool, CostError(h.db.Write(ctx, locked, closed, spool)))
}
