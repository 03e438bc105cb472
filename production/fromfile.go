package production

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// RunFileQuery are the parameters of a run from a file.
type RunFileQuery struct {
	FileName  value.Optional[string]     `query:"filename"`
	DryRun    value.Optional[bool]       `query:"dry_run" rule:"default=false"`
	ProductID value.Optional[value.UUID] `query:"product_id"`
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
	OrderID   value.Optional[value.UUID] `query:"order_id"`
	Plate     value.Optional[int64]      `query:"plate" rule:"minimum=1,maximum=100"`
	Pieces    value.Optional[int64]      `query:"pieces" rule:"minimum=1,maximum=1000000"`
	Filaments value.Optional[string]     `query:"filaments"`

	ofPrint bool // whether a printer has named the file: see catalog.OfPrint
}

// RunFileResult describes the run that was made from a file.
type RunFileResult struct {
	DryRun       bool                  `json:"dry_run" rule:"notNull"`
	RunID        *value.UUID           `json:"run_id"`
	ProductID    *value.UUID           `json:"product_id"`
	ProductName  *string               `json:"product_name"`
	OrderItemID  *value.UUID           `json:"order_item_id"`
	Quantity     int64                 `json:"quantity" rule:"notNull"`
	Hours        *value.Decimal        `json:"estimated_print_time_hours"`
	Grams        *value.Decimal        `json:"estimated_total_filament_grams"`
	FileName     *string               `json:"file_name"`
	FileSHA256   string                `json:"file_sha256" rule:"notNull"`
	SlicedBy     *string               `json:"sliced_by"`
	PrinterModel *string               `json:"printer_model"`
	Materials    []RunFileMaterial     `json:"materials" rule:"notNull"`
	Warnings     []catalog.FileWarning `json:"warnings" rule:"notNull"`
}

// The largest estimates of a run. Those of a file are limited to them.
const (
	maxFileGrams = 1_000_000 * value.DecimalOne
	maxFileHours = 100_000
)

// RunFileMaterial is a filament of a file, and the spool proposed for it.
type RunFileMaterial struct {
	Profile      *string           `json:"profile"`
	FileMaterial *string           `json:"file_material"`
	FileColor    *string           `json:"file_color"`
	Weight       value.Decimal     `json:"weight_grams" rule:"notNull"`
	FromLength   bool              `json:"from_length" rule:"notNull"`
	Match        catalog.FileMatch `json:"match" rule:"notNull"`
	SpoolID      *value.UUID       `json:"spool_id"`
	SpoolNumber  *int64            `json:"spool_number"`
	SpoolName    *string           `json:"spool_name"`
	Enough       *bool             `json:"enough"`
}

var fromFileDoc = &server.Doc{
	ID: "createProductionRunFromFile", Tag: Tag, Summary: "Create a production run from a sliced file",
	Description: "The body is a file as for `createProductFromFile`. The service does not keep the file. The run's " +
		"`estimated_print_time_hours` and `estimated_total_filament_grams` are those of the file, and its `notes` name " +
		"the file.\n\n" +
		"The item of the run is the product that `product_id` names, or else the newest product made from this file " +
		"(`file_sha256`), or else the newest product made from a file with this name. Without such a product, the run has " +
		"no item, and `warnings` report it. If the product has plates, `plate` chooses the item; without it, the run " +
		"prints the product with all its plates. With `order_id`, the item prints the item of the order with the product, " +
		"or with the product of the plate.\n\n" +
		"A material of the run is a spool in stock of a filament that is equal to one of the file: material, color and " +
		"diameter. A spool loaded in the printer comes first, and one loaded in another printer last. Otherwise spools " +
		"with enough filament that no other run needs come first, and of these the emptiest. A filament without such a " +
		"spool does not become a material, and `warnings` report it.",
	Errors: append(slices.Clone(catalog.FileErrors), errUnknownOrderOfFile),
}

var errUnknownOrderOfFile = server.BadRequest("UNKNOWN_REFERENCE",
	"The order does not exist, is cancelled, or has no item with the product of the file").On("order_id")

func (h handlers) readFile(ctx context.Context, _ *server.Request[RunFileQuery], body io.Reader,
) (catalog.SlicedFile, []byte, error) {
	return catalog.ReadFile(ctx, h.db, body)
}

func (h handlers) fromFile(ctx context.Context, r *server.Request[RunFileQuery], f catalog.SlicedFile,
) (server.OK[RunFileResult], error) {
	run := h.db.Tx
	if r.In.DryRun.Or(false) {
		run = h.db.DryRun
	}
	var out *RunFileResult
	err := run(ctx, func(ctx context.Context) (err error) {
		out, err = h.runOfFile(ctx, &r.In, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(*out)
}

// runOfFile creates the run. A dry run does, too, to find the same errors, and is rolled back.
func (h handlers) runOfFile(ctx context.Context, q *RunFileQuery, f catalog.SlicedFile) (*RunFileResult, error) {
	plan, err := catalog.PlanRun(ctx, h.db, f, catalog.FileQuery{FileName: q.FileName, Plate: q.Plate, Pieces: q.Pieces,
		Filaments: q.Filaments})
	if err != nil {
		return nil, err
	}
	out := &RunFileResult{DryRun: q.DryRun.Or(false), Quantity: plan.PerPlate, FileName: plan.FileName,
		FileSHA256: plan.FileSHA256, SlicedBy: plan.SlicedBy, PrinterModel: plan.PrinterModel,
		Materials: []RunFileMaterial{}, Warnings: plan.Warnings}
	in := Run{PrinterID: q.PrinterID, Notes: value.Optional[string]{Set: true, Value: plan.FileName}}
	if plan.Seconds > 0 {
		hours := value.Decimal(min(plan.Seconds, maxFileHours*3600)) * value.DecimalOne / 3600
		out.Hours, in.EstimatedHours = &hours, value.Some(hours)
	}
	if err := h.itemOfFile(ctx, q, out, &in, plan.FileName); err != nil {
		return nil, err
	}
	if err := h.materialsOfFile(ctx, q, out, &in, plan.Materials); err != nil {
		return nil, err
	}
	created, err := h.create(ctx, &server.Request[Run]{In: in})
	if err != nil || out.DryRun {
		return out, err
	}
	var run struct{ ID value.UUID }
	if err := json.Unmarshal(created, &run); err != nil {
		return nil, err
	}
	out.RunID = &run.ID
	return out, nil
}

// itemOfFile finds the product of the file and, with an order, the order's item, and adds it to the run.
func (h handlers) itemOfFile(ctx context.Context, q *RunFileQuery, out *RunFileResult, in *Run, name *string) error {
	product := catalog.OfFile("g.file_name", "g.file_sha256")
	if q.ofPrint {
		product = catalog.OfPrint("g.file_name", "g.file_sha256")
	}
	if !q.ProductID.IsNull() {
		product = `(select p.*, false as renewed from products p where p.id = g.product_id and p.hidden_at is null)`
	}
	read := db.SQL(`
		select p.id, p.name, f.renewed, case when p.plate_of is not null then coalesce(p.pieces_per_plate, 1) else (
				select min(greatest(coalesce(x.pieces_per_plate, 1) / c.quantity, 1))
				from product_components c join products x on x.id = c.component_product_id and x.plate_of = p.id
				where c.product_id = p.id) end as pieces, coalesce(`+h.orders.ItemOf("g.order_id", "p.id")+`,
			`+h.orders.ItemOf("g.order_id", "p.plate_of")+`) as order_item_id
		from (select $1::uuid as product_id, $2::uuid as order_id, $3::text as file_name, $4::text as file_sha256) g
		cross join lateral `+product+` f
		left join lateral (
			select x.id from products x where x.plate_of = f.id and x.plate = $5::int and x.hidden_at is null limit 1
		) s on true
		join products p on p.id = coalesce(s.id, f.id)`, q.ProductID.Arg(), q.OrderID.Arg(), name, out.FileSHA256,
		q.Plate.Arg())
	if err := h.db.Read(ctx, read); err != nil {
		return err
	}
	if read.Rows() == 0 {
		switch {
		case !q.ProductID.IsNull():
			return errUnknownProduct.With("product_id").On("product_id")
		case !q.OrderID.IsNull():
			return errUnknownOrderOfFile
		}
		out.warn("No product was made from this file, so the run has no item.")
		return nil
	}
	var found struct {
		catalog.FileProduct
		OrderItemID *value.UUID `json:"order_item_id"`
		Pieces      *int64      `json:"pieces"` // of a plate, or of a product with plates
	}
	if err := json.Unmarshal(read.Object(), &found); err != nil {
		return err
	}
	if found.OrderItemID == nil && !q.OrderID.IsNull() {
		return errUnknownOrderOfFile
	}
	if found.Renewed {
		out.warn("The product %s was made from another file with this name.", found.Name)
	}
	if found.Pieces != nil && q.Pieces.IsNull() {
		out.Quantity = *found.Pieces
	}
	id := value.UUID(found.ID)
	out.ProductID, out.ProductName, out.OrderItemID = &id, &found.Name, found.OrderItemID
	in.Items = []RunItem{{ProductID: value.Some(id), Quantity: value.Some(out.Quantity),
		OrderItemID: value.Optional[value.UUID]{Set: true, Value: out.OrderItemID}}}
	return nil
}

// materialsOfFile proposes spools for the filaments of the file, and adds them to the run.
func (h handlers) materialsOfFile(ctx context.Context, q *RunFileQuery, out *RunFileResult, in *Run,
	filaments []catalog.FileMaterial) error {
	rows := make([]map[string]any, len(filaments))
	var total value.Decimal
	for i, m := range filaments {
		total += m.Weight
		rows[i] = map[string]any{"material_type": m.MaterialType, "material_name": m.MaterialName, "color": m.Color,
			"diameter_mm": m.DiameterMM, "grams": m.Weight}
		out.Materials = append(out.Materials, RunFileMaterial{Profile: m.Profile, FileMaterial: m.FileMaterial,
			FileColor: m.FileColor, Weight: m.Weight, FromLength: m.FromLength, Match: m.Match})
	}
	if total == 0 {
		return nil
	}
	total = min(total, maxFileGrams)
	out.Grams, in.EstimatedGrams = &total, value.Some(total)
	proposed := db.SQL(`
		with wanted as materialized (
			select w.n, w.grams, lower(w.color collate "und-x-icu") collate "C" as color_key,
				material_key(w.material_type, w.material_name, coalesce(w.diameter_mm, usual_diameter())) as material_key
			from json_to_recordset($1::json) w (n int, material_type text, material_name text, color text,
				diameter_mm numeric, grams numeric)
		), taken as materialized (
			select m.spool_id, sum(m.grams) as grams from unfinished_materials() m group by m.spool_id
		)
		select w.n, s.id as spool_id, s.number as spool_number,
			spool_name(s.material_type, s.material_name, s.color, s.brand) as spool_name, s.enough
		from (select *, sum(grams) over (partition by material_key, color_key) as total from wanted) w
		cross join lateral (
			select s.*, s.remaining_weight_grams - coalesce(t.grams, 0) >= w.total as enough
			from spools s
			left join taken t on t.spool_id = s.id
			left join printer_slots l on l.spool_id = s.id
			where s.color_key = w.color_key and s.material_key = w.material_key and s.in_stock and not s.archived
				and s.hidden_at is null
			order by coalesce(l.printer_id = $2::uuid, false) desc, l.printer_id is not null, enough desc,
				s.remaining_weight_grams, s.number
			limit 1
		) s
		order by w.n`, db.Recordset(rows), q.PrinterID.Arg())
	if err := h.db.Read(ctx, proposed); err != nil {
		return err
	}
	var spools []struct {
		N       int        `json:"n"`
		SpoolID value.UUID `json:"spool_id"`
		Number  int64      `json:"spool_number"`
		Name    string     `json:"spool_name"`
		Enough  bool       `json:"enough"`
	}
	if err := json.Unmarshal(proposed.Array(), &spools); err != nil {
		return err
	}
	for _, s := range spools {
		m := &out.Materials[s.N]
		if m.Weight == 0 || m.Match == "material" || m.Match == "none" {
			continue
		}
		m.SpoolID, m.SpoolNumber, m.SpoolName, m.Enough = &s.SpoolID, &s.Number, &s.Name, &s.Enough
		in.Materials = append(in.Materials, RunMaterial{SpoolID: value.Some(s.SpoolID),
			EstimatedWeight: value.Some(m.Weight)})
		if !s.Enough {
			out.warn("Spool #%d has too little filament for the file if other runs take theirs first.", s.Number)
		}
	}
	for i, m := range out.Materials {
		if m.SpoolID == nil && m.Weight != 0 {
			out.warn("No spool in stock matches filament %d of the file.", i+1)
		}
	}
	return nil
}

func (out *RunFileResult) warn(format language.Text, args ...any) {
	out.Warnings = append(out.Warnings, catalog.FileWarning{Text: language.Sprintf(format, args...)})
}
