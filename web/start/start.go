// Package start helps a new farm: with first steps, and with sample data that can be removed as a whole.
package start

import (
	"context"
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of the sample data. They call functions of inventory, printers, catalog and auth.
var Definitions = db.Definitions("start", functions, "samples")

// Service knows the first steps of farms and their sample data. It is safe for concurrent use.
type Service struct {
	db       *db.DB
	finished sync.Map // the tenants that need no steps any more
}

// New returns a Service.
func New(d *db.DB) *Service { return &Service{db: d} }

// Steps are the first steps of a farm: which of them are done, and whether the farm has sample data. Sample data does
// not count as done.
type Steps struct {
	Place, Filament, Printer, Product, Colleague bool
	Empty                                        bool // whether the farm has no data at all
	Samples                                      bool
	Hidden                                       bool
}

// Done reports whether all steps are done.
func (s *Steps) Done() bool { return s.Place && s.Filament && s.Printer && s.Product && s.Colleague }

// Statement returns the statement that reads the first steps of a tenant, and the steps that it sets.
// Shown returns what to show after the statement has run. Both are nil for a farm that needed no steps before.
func (s *Service) Statement(tenant string) (*db.Stmt, *Steps) {
	if _, ok := s.finished.Load(tenant); ok {
		return nil, nil
	}
	var steps Steps
	const own = `and not exists (select from sample_rows r where r.id = x.id))`
	return db.SQL(`
		select exists (select from tenants where currency is not null),
			exists (select from spools x where x.hidden_at is null `+own+`
				or exists (select from filaments x where x.hidden_at is null `+own+`,
			exists (select from printers x where x.hidden_at is null `+own+`,
			exists (select from products x where x.hidden_at is null `+own+`,
			(select count(*) from (select from users limit 2) u) > 1,
			`+isEmpty+`,
			exists (select from first_steps where samples_at is not null),
			exists (select from first_steps where hidden_at is not null)`).Quick().
		Into(&steps.Place, &steps.Filament, &steps.Printer, &steps.Product, &steps.Colleague, &steps.Empty,
			&steps.Samples, &steps.Hidden), &steps
}

// Shown returns the steps that Statement has returned for the tenant, or nil if they are done or hidden and the farm
// has no sample data.
func (s *Service) Shown(tenant string, steps *Steps) *Steps {
	if steps != nil && (steps.Hidden || steps.Done()) && !steps.Samples {
		s.finished.Store(tenant, true)
		return nil
	}
	return steps
}

// Steps returns the result of Shown for the tenant of ctx, in one round trip or none.
func (s *Service) Steps(ctx context.Context) (*Steps, error) {
	tenant := db.ActorOf(ctx).Tenant
	stmt, steps := s.Statement(tenant)
	if stmt == nil {
		return nil, nil
	}
	if err := s.db.Read(ctx, stmt); err != nil {
		return nil, err
	}
	return s.Shown(tenant, steps), nil
}

// isEmpty is whether the tenant has no data that it has not removed.
const isEmpty = `not (exists (select from spools where hidden_at is null)
	or exists (select from filaments where hidden_at is null) or exists (select from vendors where hidden_at is null)
	or exists (select from printers where hidden_at is null) or exists (select from products where hidden_at is null)
	or exists (select from orders where hidden_at is null) or exists (select from stock_levels)
	or exists (select from production_runs where hidden_at is null))`

// Hide hides the steps for good.
func (s *Service) Hide(ctx context.Context) error {
	return s.db.Write(ctx, db.SQL(`
		insert into first_steps (hidden_at) values (now())
		on conflict (tenant_id) do update set hidden_at = coalesce(first_steps.hidden_at, now())`))
}

var (
	errNotEmpty = server.Conflict("FARM_NOT_EMPTY", "Sample data is only for a farm without data of its own")
	errInUse    = server.Conflict("SAMPLES_IN_USE",
		"Somebody works with the sample data at this moment; try again")
)

// Fill fills the farm with sample data. It calls send for each request; see Load. The error is a 409 if the farm has
// data.
func (s *Service) Fill(ctx context.Context, send func(Request) (answer []byte, err error)) error {
	begun := db.SQL(`
		insert into first_steps (samples_at) select now() where ` + isEmpty + `
		on conflict (tenant_id) do update set samples_at = now() where first_steps.samples_at is null
		returning samples_at`)
	if err := s.db.Write(ctx, db.Lock("first_steps"), begun); err != nil {
		return err
	}
	if begun.Rows() == 0 {
		return errNotEmpty
	}
	s.finished.Delete(db.ActorOf(ctx).Tenant)
	var ids []string
	mark := func() error {
		err := s.db.Write(ctx, db.SQL(`select mark_samples($1::uuid[])::text`, ids))
		ids = nil
		return err
	}
	created := map[string]*dated{"spools.created_at": {}, "orders.created_at": {}, "production_runs.created_at": {},
		"printers.maintained_at": {}}
	err := Load(func(r Request) ([]byte, error) {
		answer, err := send(r)
		if err != nil {
			return nil, err
		}
		id, err := idOf(answer)
		column := columns[r.Path]
		if column != "" {
			ids = append(ids, id)
			if err := sendPicture(r, id, send); err != nil {
				return nil, err
			}
		} else if strings.HasSuffix(r.Path, "/maintained") {
			column = "printers.maintained_at"
		}
		if d := created[column]; d != nil && !r.At.IsZero() {
			d.ids, d.times = append(d.ids, id), append(d.times, r.At)
		}
		if len(ids) == 25 && err == nil { // what a crash leaves unmarked is little
			err = mark()
		}
		return answer, err
	})
	if marked := mark(); err == nil {
		err = marked
	}
	if err != nil {
		return err
	}
	var stmts []*db.Stmt
	for _, column := range slices.Sorted(maps.Keys(created)) {
		d := created[column]
		table, name, _ := strings.Cut(column, ".")
		stmts = append(stmts, db.SQL(`select date_samples($1, $2, $3::uuid[], $4::timestamptz[])::text`, table, name,
			d.ids, d.times))
	}
	return s.db.Write(ctx, append(stmts, db.SQL(`select date_sample_usage()::text`))...)
}

// dated are the times at which samples are to have been created.
type dated struct {
	ids   []string
	times []time.Time
}

// sendPicture sends the picture of a product that a request has created.
func sendPicture(r Request, id string, send func(Request) ([]byte, error)) error {
	if r.Path != "/api/v1/products" {
		return nil
	}
	var product struct{ SKU string }
	if err := json.Unmarshal(r.Body, &product); err != nil {
		return err
	}
	picture, err := drawn(product.SKU)
	if picture == nil || err != nil {
		return err
	}
	_, err = send(Request{Method: http.MethodPut, Path: r.Path + "/" + id + "/picture", Media: "application/octet-stream",
		Body: picture})
	return err
}

// columns are the collections whose resources are marked as sample data, and the columns of their times.
var columns = map[string]string{
	"/api/v1/vendors": "vendors.created_at", "/api/v1/filaments": "filaments.created_at",
	"/api/v1/spools": "spools.created_at", "/api/v1/stock-levels": "stock_levels.created_at",
	"/api/v1/printers": "printers.created_at", "/api/v1/products": "products.created_at",
	"/api/v1/orders": "orders.created_at", "/api/v1/production-runs": "production_runs.created_at",
}

// Sample is what becomes of a sample, or of a run or an order that consists of samples, when the samples are removed.
type Sample struct {
	Kind string // vendor, filament, spool, stock level, printer, product, order or run
	Name string
	Fate string // removed; made: it is not a sample, and removed with the samples; or kept
}

// Samples returns what Remove would do.
func (s *Service) Samples(ctx context.Context) ([]Sample, error) {
	var plan string
	err := s.db.Read(ctx, db.SQL(`
		select coalesce(json_agg(json_build_object('kind', p.kind, 'name', p.name, 'fate', p.fate)), '[]')::text
		from sample_plan() p`).Into(&plan))
	if err != nil {
		return nil, err
	}
	return samplesOf(plan)
}

func samplesOf(plan string) (all []Sample, err error) { return all, json.Unmarshal([]byte(plan), &all) }

// Remove removes the sample data, and returns what became of it. The error is a 409 if another transaction uses the
// samples at the same time.
func (s *Service) Remove(ctx context.Context) ([]Sample, error) {
	var plan *string
	err := s.db.Write(ctx, db.Lock("catalog"), db.Lock("printer_slots"),
		db.SQL(`select remove_samples()::text`).Into(&plan))
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, errInUse
	}
	return samplesOf(*plan)
}
