package printers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spoolwright/auth/vault"
	"spoolwright/db"
	"spoolwright/production/watch"
	"spoolwright/server"
	"spoolwright/server/limit"
	"spoolwright/value"
	"spoolwright/value/language"
)

// maxWatched is the maximum number of printers of a farm that the service watches.
const maxWatched = 10_000

// wakeWatcher returns the statement that tells the watcher in the service that a connection of the printer changes.
func wakeWatcher(printer string) *db.Stmt {
	return db.SQL(`select queue_add(array[c.tenant_id], $2)::text from printer_connections c where c.id = $1`, printer,
		db.Watch)
}

// WakeWatchers tells the watcher in the service about all farms with connections, in case the queue was lost. It
// returns the number of all farms.
func WakeWatchers(ctx context.Context, d *db.DB) (farms int, err error) {
	err = d.EachTenant(ctx, func(ctx context.Context, _ string) error {
		farms++
		return d.Write(ctx, db.SQL(`
			select queue_add(array[c.tenant_id], $1)::text from (select tenant_id from printer_connections limit 1) c`,
			db.Watch))
	})
	return farms, err
}

// Watched returns the printers with connections of the tenant that the context is bound to, with their secrets: only
// for the watcher in the service. A secret that no configured secret decrypts is missing; then the error is not nil. A
// secret that is not encrypted with the first configured secret is encrypted again.
func (c *Connections) Watched(ctx context.Context) ([]watch.Printer, error) {
	return c.read(ctx, "true")
}

func (c *Connections) read(ctx context.Context, where string, args ...any) ([]watch.Printer, error) {
	read := db.SQL(fmt.Sprintf(`
		select c.id, c.kind, c.address, encode(c.secret, 'base64') as sealed, coalesce(c.serial, '') as serial,
			coalesce(c.fingerprint, '') as fingerprint
		from printer_connections c join printers p on p.id = c.id and p.hidden_at is null
		where %s order by c.id limit %d`, where, maxWatched), args...)
	if err := c.db.Read(ctx, read); err != nil {
		return nil, err
	}
	var rows []struct {
		watch.Printer
		Sealed []byte
	}
	if err := json.Unmarshal(read.Array(), &rows); err != nil {
		return nil, err
	}
	all, problems := make([]watch.Printer, len(rows)), error(nil)
	for i, r := range rows {
		if all[i] = r.Printer; r.Sealed == nil {
			continue
		}
		secret, key, err := c.vault.Open(owner(ctx, r.ID), r.Sealed)
		switch {
		case err != nil:
			problems = fmt.Errorf("the secret of the printer %s: %w", r.ID, err)
		case key > 0:
			err := c.db.Write(ctx, db.SQL(`update printer_connections set secret = $2 where id = $1 and secret = $3`,
				r.ID, c.vault.Seal(owner(ctx, r.ID), secret), r.Sealed))
			if err != nil {
				return nil, err
			}
		}
		all[i].Secret = string(secret)
	}
	return all, problems
}

// owner returns the owner of the secret of a printer, so that the secret can be decrypted only for this printer.
func owner(ctx context.Context, printer string) string { return db.ActorOf(ctx).Tenant + " " + printer }

// Maintain encrypts the secrets of all tenants with the first configured secret, if they have another one, so that the
// other configured secrets can be removed. A secret that cannot be decrypted stays.
func (c *Connections) Maintain(ctx context.Context) error {
	return c.db.EachTenant(ctx, func(ctx context.Context, _ string) error {
		_, err := c.Watched(ctx)
		if errors.Is(err, vault.ErrUndecryptable) {
			return nil // the test of the connection says so
		}
		return err
	})
}

// Pin stores the fingerprint of the certificate that a printer has shown first.
func (c *Connections) Pin(ctx context.Context, printer, serial, fingerprint string) error {
	return c.db.Write(ctx, db.SQL(`update printer_connections set fingerprint = $3
		where id = $1 and serial = $2 and fingerprint is null`, printer, serial, fingerprint))
}

// ConnectionTest is the result of a test of a connection.
type ConnectionTest struct {
	OK          bool         `json:"ok" rule:"notNull"`
	Problem     *TestProblem `json:"problem"`
	Text        *string      `json:"text"`
	State       *string      `json:"state"`
	File        *string      `json:"file"`
	Fingerprint *string      `json:"fingerprint"`
}

// TestProblem is the kind of the problem with a connection.
type TestProblem string

// Enum returns all kinds.
func (TestProblem) Enum() []string {
	return []string{"off", "network", "name", "port", "key", "kind", "certificate", "protocol", "busy", "invalid",
		"stale"}
}

var errWatchOff = server.Conflict("WATCH_OFF",
	"The service watches no printers: its setting WATCH is off. A watcher in the network of the printers can")

var testConnectionDoc = &server.Doc{
	ID: "testPrinterConnection", Tag: Tag, Summary: "Test the connection of a printer",
	Description: "Connects to the printer, reads what it does, and says in words what is wrong. It changes nothing. It " +
		"takes up to 20 seconds, and waits for up to 10 more while four tests of the farm run.\n\n" +
		"A bambu shows its certificate: `fingerprint` is that of the certificate. If it is not the one of the " +
		"connection, `problem` is `certificate`. If the printer is the same, for example after an update of its " +
		"firmware, send this `fingerprint` with `putPrinterConnection`.",
	Errors: []*server.Error{errWatchOff.On()},
}

// The maximum number of tests at a time, of all farms and of one, and how long a test waits for others.
const (
	maxTests     = 64
	testsPerFarm = 4
	testWait     = 10 * time.Second
)

func (c *Connections) test(ctx context.Context, r *server.Request[struct{}]) (server.OK[ConnectionTest], error) {
	if c.dial == nil {
		return nil, errWatchOff.On()
	}
	all, err := c.read(ctx, "c.id = $1", r.ID("id"))
	switch {
	case len(all) == 0 && err == nil:
		return nil, server.ErrNotFound
	case len(all) == 0:
		return nil, err
	case err != nil:
		return server.Encode(refused(&watch.Problem{Code: "key",
			Text: language.Sprintf("The service cannot decrypt the stored key. Enter it again.")}))
	}
	release, err := c.tests.Acquire(ctx, testWait, 1, db.ActorOf(ctx).Tenant)
	switch {
	case errors.Is(err, limit.ErrBusy):
		return nil, server.ErrUnavailable.Because(err)
	case err != nil:
		return nil, err
	}
	defer release()
	found, err := watch.Test(ctx, all[0].Connection, c.dial)
	var problem *watch.Problem
	switch {
	case errors.As(err, &problem):
		t := refused(problem)
		if t.Fingerprint == nil {
			t.Fingerprint = value.OrNil(found.Fingerprint)
		}
		return server.Encode(t)
	case err != nil:
		return nil, err
	}
	return server.Encode(ConnectionTest{OK: true, Text: value.OrNil(found.Message), State: value.OrNil(found.State),
		File: value.OrNil(found.File), Fingerprint: value.OrNil(found.Fingerprint)})
}

func refused(p *watch.Problem) ConnectionTest {
	return ConnectionTest{Problem: new(TestProblem(p.Code)), Text: &p.Text, Fingerprint: value.OrNil(p.Fingerprint)}
}
