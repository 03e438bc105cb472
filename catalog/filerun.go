package catalog

import (
	"context"
	"encoding/json"
	"io"

	"spoolwright/catalog/slicer"
	"spoolwright/db"
	"spoolwright/value"
)

// MaxFile is the maximum size of the file of a slicer.
const MaxFile = slicer.MaxSize

// SlicedFile is a sliced file that was read completely.
type SlicedFile struct{ file *slicer.File }

// ReadFile reads the file in a body, and also returns its SHA-256.
func ReadFile(ctx context.Context, d *db.DB, body io.Reader) (SlicedFile, []byte, error) {
	f, sum, err := handlers{d}.readFile(ctx, body)
	return SlicedFile{f}, sum, err
}

// FileRun describes a run of a file: the FileResult is for one run instead of one piece. The print time is in seconds,
// or 0 if it is unknown.
type FileRun struct {
	*FileResult
	Seconds int64
}

// PlanRun returns what a run of the file prints, with its filaments matched to those of the farm. A filament whose
// material the file does not name has no match.
func PlanRun(ctx context.Context, d *db.DB, f SlicedFile, q FileQuery) (FileRun, error) {
	q.DryRun, q.ProductID = value.Some(true), value.Optional[value.UUID]{}
	p := &fileProduct{query: &q, file: f.file}
	if err := p.plan(); err != nil {
		return FileRun{}, err
	}
	p.pieces = 1 // the weights are those of the run
	numbers, err := chosenFilaments(q.Filaments.Or(""), len(p.filaments))
	if err != nil {
		return FileRun{}, err
	}
	stock, err := handlers{d}.fileStock(ctx, p.types())
	if err != nil {
		return FileRun{}, err
	}
	p.result.Materials = []FileMaterial{}
	if err := p.match(stock, numbers); err != nil {
		return FileRun{}, err
	}
	run := FileRun{FileResult: &p.result}
	for _, plate := range p.plates {
		run.Seconds += plate.Seconds
	}
	return run, nil
}

// FileProduct is the product of a file. Its file has the same SHA-256 or, with Renewed, only the same name.
type FileProduct struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Renewed bool   `json:"renewed"`
}

// OfFile returns a subquery for the newest product that was made from the file with the checksum sum, or else from a
// file with the name. Both are SQL expressions. The subquery finds no hidden products and no variants, and prefers a
// product to its plates.
func OfFile(name, sum string) string { return ofFile("p.file_name = "+name, sum) }

// OfPrint is OfFile for the name that a printer has for the file.
func OfPrint(name, sum string) string {
	return ofFile("p.file_key = nullif(file_key("+name+"), '')", sum)
}

func ofFile(named, sum string) string {
	return `(
				select * from (
					(select p.*, false as renewed from products p
						where p.file_sha256 = ` + sum + ` and p.hidden_at is null and p.variant_of is null
						order by p.plate_of is not null, p.created_at desc, p.id desc limit 1)
					union all
					(select p.*, true from products p
						where ` + named + ` and p.hidden_at is null and p.variant_of is null
						order by p.plate_of is not null, p.created_at desc, p.id desc limit 1)
				) p order by p.renewed limit 1
			)`
}

// FindFileProduct returns the product of a file, or nil.
func FindFileProduct(ctx context.Context, d *db.DB, name *string, sum string) (*FileProduct, error) {
	found := db.SQL(`select p.id, p.name, p.renewed from `+OfFile("$1::text", "$2::text")+` p`, name, sum)
	if err := d.Read(ctx, found); err != nil || found.Rows() == 0 {
		return nil, err
	}
	p := &FileProduct{}
	return p, json.Unmarshal(found.Object(), p)
}
