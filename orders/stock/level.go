package stock

import (
	"context"
	"reflect"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

var levelsTag = &server.Tag{
	Name: "stock-levels", Fields: fields,
	Description: "How much filament should be in stock. The levels that are low are the shopping list.",
}

// StockLevel is a minimum for the grams of a filament in stock.
type StockLevel struct {
	ID           value.UUID                             `json:"id" rule:"readOnly,notNull"`
	MaterialType value.Optional[inventory.MaterialType] `json:"material_type" rule:"required"`
	MaterialName value.Optional[string]                 `json:"material_name"`
	Color        value.Optional[string]                 `json:"color"`
	Brand        value.Optional[string]                 `json:"brand"`
	DiameterMM   value.Optional[value.Decimal]          `json:"diameter_mm" rule:"enum=1.75|2.85"`
	Minimum      value.Optional[value.Decimal]          `json:"minimum_grams" rule:"required,exclusiveMinimum=0,maximum=999999999"`
	Incoming     value.Optional[value.Decimal]          `json:"incoming_grams" rule:"exclusiveMinimum=0,maximum=999999999"`
	IncomingDate value.Optional[value.Date]             `json:"incoming_date"`
	Remaining    value.Decimal                          `json:"remaining_grams" rule:"readOnly,notNull"`
	Reserved     value.Decimal                          `json:"reserved_grams" rule:"readOnly,notNull"`
	Available    value.Decimal                          `json:"available_grams" rule:"readOnly,notNull"`
	Missing      value.Decimal                          `json:"missing_grams" rule:"readOnly,notNull"`
	SpoolCount   int64                                  `json:"spool_count" rule:"readOnly,notNull"`
	Low          bool                                   `json:"low" rule:"readOnly,notNull"`
	LowSince     value.Timestamp                        `json:"low_since" rule:"readOnly"`
	Purchase     Purchase                               `json:"purchase" rule:"readOnly,notNull,unsorted"`
	CreatedAt    value.Timestamp                        `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt    value.Timestamp                        `json:"updated_at" rule:"readOnly,notNull"`
}

// Purchase is what to buy for a stock level: a filament as it was bought last. Without a filament, it is what the
// newest spool says, and null if nothing is known.
type Purchase struct {
	FilamentID    *value.UUID    `json:"filament_id"`
	Vendor        string         `json:"vendor"`
	ArticleNumber string         `json:"article_number"`
	URL           string         `json:"url"`
	Price         *value.Decimal `json:"price"`
	PriceOf       string         `json:"price_of" rule:"enum=spool|filament"`
	NetWeight     *value.Decimal `json:"net_weight_grams"`
	Spools        *int64         `json:"spools"`
}

// Events are the events of stock levels and of pieces in stock.
var Events = webhooks.Declare(lowPieces, server.Event{
	Type: "inventory.low_stock", Tag: levelsTag, Summary: "A stock level became low",
	Description: "Sent once when the available grams of a level fall below its minimum, whatever caused it, about a " +
		"second later. The level must reach 110 % of the minimum before it can become low again. A level that is low " +
		"only for a moment, until someone corrects a weight, may send no event.",
	Data: reflect.TypeFor[LowStock](),
})

var lowPieces = server.Event{
	Type: "product.low_stock", Tag: catalog.Tag, Summary: "A product has too few pieces in stock",
	Description: "Sent once when the pieces of a product that are in stock and not reserved become fewer than its " +
		"`minimum_pieces`, about a second later. They must reach 110 % of that before the event can be sent again.",
	Data: reflect.TypeFor[LowPieces](),
}

// LowPieces is the data of a product.low_stock.
type LowPieces struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Name      string          `json:"name" rule:"notNull"`
	SKU       string          `json:"sku"`
	Minimum   int64           `json:"minimum_pieces" rule:"notNull"`
	OnHand    int64           `json:"on_hand" rule:"notNull"`
	Reserved  int64           `json:"reserved" rule:"notNull"`
	Available int64           `json:"available" rule:"notNull"`
	Incoming  int64           `json:"incoming" rule:"notNull"`
	LowSince  value.Timestamp `json:"low_since" rule:"notNull"`
}

// LowStock is the data of an inventory.low_stock.
type LowStock struct {
	ID           value.UUID             `json:"id" rule:"notNull"`
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	MaterialName string                 `json:"material_name"`
	Color        string                 `json:"color"`
	Brand        string                 `json:"brand"`
	DiameterMM   *value.Decimal         `json:"diameter_mm"`
	Minimum      value.Decimal          `json:"minimum_grams" rule:"notNull"`
	Available    value.Decimal          `json:"available_grams" rule:"notNull"`
	Missing      value.Decimal          `json:"missing_grams" rule:"notNull"`
	LowSince     value.Timestamp        `json:"low_since" rule:"notNull"`
}

const levelColumns = `id, material_type, material_name, color, brand, diameter_mm, minimum_grams, incoming_grams,
	incoming_date, remaining_grams, reserved_grams, available_grams,
	missing_grams, spool_count, low, low_since, level_purchase(material_key, color_key, brand_key,
	greatest(missing_grams - coalesce(incoming_grams, 0), 0)) as purchase, created_at, updated_at`

// levels returns stock_levels with the computed fields, for the ids of a SQL expression, or for all if it is null.
func levels(ids string) string {
	return `(select l.tenant_id, l.id, l.material_type, l.material_name, l.color, l.color_key, l.brand,
		l.brand_key, material_key(l.material_type, l.material_name, coalesce(l.diameter_mm, (select usual_diameter())))
			as material_key, l.diameter_mm, l.minimum_grams, l.incoming_grams, l.incoming_date, l.created_at, l.updated_at,
		s.remaining as remaining_grams,
		s.reserved as reserved_grams,
		s.remaining - s.reserved as available_grams,
		case when s.low then l.minimum_grams * 1.1 - s.remaining + s.reserved else 0 end as missing_grams,
		s.spools as spool_count, s.low, case when s.low then l.low_since end as low_since
	from stock_levels l join level_stock(` + ids + `) s on s.level = l.id) stock_levels`
}

// maxLevels is the maximum number of stock levels of a tenant.
const maxLevels = 500

var (
	errLevelExists = server.Conflict("STOCK_LEVEL_EXISTS",
		"There is a stock level for this material, color, brand and diameter already").
		On("material_type", "material_name", "color", "brand", "diameter_mm")
	errLevelLimit = server.Conflict("STOCK_LEVEL_LIMIT", "A tenant can have %d stock levels", maxLevels)
)

// LevelFilter are the parameters of the list of stock levels.
type LevelFilter struct {
	server.ListQuery
	Low          value.Optional[bool]                              `query:"low"`
	MaterialType value.Optional[value.Set[inventory.MaterialType]] `query:"material_type"`
	Brand        value.Optional[string]                            `query:"brand"`
	Color        value.Optional[string]                            `query:"color"`
}

var listLevelsDoc = &server.Doc{
	ID: "listStockLevels", Tag: levelsTag, Summary: "List stock levels",
	Description: "`low=true` is the shopping list: the levels with too little filament, each with the grams that " +
		"are missing, and the `purchase` that brings them.",
}

func (h handlers) listLevels(ctx context.Context, r *server.Request[LevelFilter]) (server.Page[StockLevel], error) {
	l := server.NewList(levels("null"), levelColumns, "", "")
	l.Once("levels") // at most maxLevels, for which all spools of their filaments are read
	l.WhereEqual("low", r.In.Low)
	l.WhereOneOf("material_type", r.In.MaterialType)
	l.WhereText("brand_key", r.In.Brand)
	l.WhereText("color_key", r.In.Color)
	return server.ListPage[StockLevel](ctx, func(ctx context.Context, stmts ...*db.Stmt) error {
		return h.db.Read(ctx, append([]*db.Stmt{db.FreshPlan()}, stmts...)...)
	}, l, r.In.ListQuery)
}

func selectLevel(id string) *db.Stmt {
	return db.SQL(`select `+levelColumns+` from `+levels("array[$1::uuid]")+` where id = $1`, id)
}

var getLevelDoc = &server.Doc{
	ID: "getStockLevel", Tag: levelsTag, Summary: "Get a stock level",
	Description: "Returns a stock level with what is in stock, reserved and missing now.",
}

// check returns a statement that queues a check of the levels after the transaction. The id is that of a new level
// (see Watcher.check) or of the tenant.
func check(id string) *db.Stmt {
	return db.SQL(`select queue_add(array[$1::uuid], $2)::text`, id, db.Stock)
}

const levelRules = "With no `color` or `brand`, or an empty one, all colors or brands count. Only spools with the " +
	"same `material_name` and `diameter_mm` count: without `material_name`, those without one or with that of " +
	"their type; without `diameter_mm`, those with the diameter of the farm's printers, or 1.75 mm if these differ. " +
	"Spools that are archived or removed do not count.\n\n" +
	"`reserved_grams` are the grams that open orders and unfinished production runs still take, as in " +
	"`getProductAvailability`; for a level with a brand, as far as other brands do not cover them. A level becomes " +
	"`low` when `available_grams` is less than `minimum_grams`, and is low until it reaches 110 % of that, so that " +
	"it does not change with each gram. `missing_grams` are missing to the 110 %. `incoming_grams` are ordered and on " +
	"their way, until `incoming_date`; they change none of the other fields. Set them to null when they have arrived. " +
	"All these fields are current.\n\n" +
	"`purchase` is the filament to buy: of the newest 20 of the level, the one whose spool was added last, or else the " +
	"newest. Without a filament, it has what the newest spool with a price says. `spools` brings the missing grams " +
	"that are not on their way; null if no net weight is known.\n\n" +
	"The " +
	"service checks levels, for `low_since` and the event `inventory.low_stock`, about a second after a change; in " +
	"farms with hundreds of thousands of spools, some seconds after it."

// clear sets an empty name, color or brand to null, because forms send empty fields and no spool would match an
// empty text. If nothing is on its way any more, it also sets the expected date to null.
func (l *StockLevel) clear() {
	for _, field := range []*value.Optional[string]{&l.MaterialName, &l.Color, &l.Brand} {
		if field.Or("") == "" {
			field.Value = nil
		}
	}
	if l.Incoming.Set && l.Incoming.IsNull() {
		l.IncomingDate = value.Optional[value.Date]{Set: true}
	}
}

var createLevelDoc = &server.Doc{
	ID: "createStockLevel", Tag: levelsTag, Summary: "Create a stock level",
	Description: "Each combination of material, color, brand and diameter has one level (`STOCK_LEVEL_EXISTS`). " +
		levelRules,
	Errors: []*server.Error{errLevelLimit, errLevelExists},
}

func (h handlers) createLevel(ctx context.Context, r *server.Request[StockLevel]) (server.Created[StockLevel], error) {
	id, in := value.NewID(), &r.In
	in.clear()
	created := db.SQL(`
		insert into stock_levels (id, material_type, color, brand, minimum_grams, material_name, diameter_mm,
			incoming_grams, incoming_date)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		id, in.MaterialType.Arg(), in.Color.Arg(), in.Brand.Arg(), in.Minimum.Arg(), in.MaterialName.Arg(),
		in.DiameterMM.Arg(), in.Incoming.Arg(), in.IncomingDate.Arg())
	level := selectLevel(id)
	limited := db.SQL(`select limit_levels($1)::text`, maxLevels)
	return server.One(level, levelError(h.db.Write(ctx, created, level, check(id), limited)))
}

// levelError returns the 409 for a second level of a filament, and for a level beyond the limit.
func levelError(err error) error {
	switch {
	case db.Violates(err, "stock_levels_filament"):
		return errLevelExists.Because(err)
	case db.Violates(err, "stock_levels_limit"):
		return errLevelLimit.Because(err)
	}
	return err
}

var updateLevelDoc = &server.Doc{
	ID: "updateStockLevel", Tag: levelsTag, Summary: "Update a stock level", Description: levelRules,
	Errors: []*server.Error{errLevelExists},
}

func (h handlers) updateLevel(ctx context.Context, r *server.Request[StockLevel]) (server.OK[StockLevel], error) {
	r.In.clear()
	level := selectLevel(r.ID("id"))
	set, args := server.Assignments(&r.In, []any{r.ID("id")})
	if set == "" {
		return server.One(level, h.db.Read(ctx, level))
	}
	update := db.SQL(`update stock_levels set `+set+`, updated_at = now() where id = $1`, args...)
	return server.One(level, levelError(h.db.Write(ctx, update, level, check(db.ActorOf(ctx).Tenant))))
}

var deleteLevelDoc = &server.Doc{ID: "deleteStockLevel", Tag: levelsTag, Summary: "Remove a stock level"}

func (h handlers) deleteLevel(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	deleted := db.SQL(`delete from stock_levels where id = $1 returning id`, r.ID("id"))
	return nil, server.Found(deleted, h.db.Write(ctx, deleted))
}
