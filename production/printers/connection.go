package printers

import (
	"context"
	"errors"

	"spoolwright/auth/vault"
	"spoolwright/db"
	"spoolwright/production/watch"
	"spoolwright/server"
	"spoolwright/server/limit"
	"spoolwright/value"
)

// Connections has the operations on the connections of printers, whose secrets it encrypts.
type Connections struct {
	db    *db.DB
	vault vault.Vault
	dial  watch.Dial
	tests *limit.Queue
}

// NewConnections returns Connections. The first secret encrypts the secrets of connections; all of them decrypt. Tests
// of connections use dial; without it, there are none.
func NewConnections(d *db.DB, secrets []string, dial watch.Dial) *Connections {
	return &Connections{db: d, vault: vault.New(secrets, "spoolwright: secrets of printers"), dial: dial,
		tests: limit.NewQueue(maxTests, testsPerFarm)}
}

// Routes returns the operations.
func (c *Connections) Routes() []server.Route {
	const path = " /api/v1/printers/{id}/connection"
	return []server.Route{
		server.Op("GET"+path, server.Admin, server.HandleGet[Connection](c.db, readConnection),
			getConnectionDoc).ForUsers().Versioned(server.LockRow("printer_connections")),
		server.Op("PUT"+path, server.Admin, server.Handle(c.put), putConnectionDoc).ForUsers(),
		server.Op("DELETE"+path, server.Admin, server.Handle(c.delete), deleteConnectionDoc).ForUsers(),
		server.Op("POST"+path+"/test", server.Admin, server.Handle(c.test), testConnectionDoc).ForUsers().WithoutKey(),
	}
}

// Connection says where a printer is watched.
type Connection struct {
	PrinterID   value.UUID             `json:"printer_id" rule:"readOnly,notNull"`
	Kind        value.Optional[string] `json:"kind" rule:"required,enum=moonraker|octoprint|prusalink|bambu,named=ConnectionKind"`
	Address     value.Optional[string] `json:"address" rule:"required"`
	Secret      value.Optional[string] `json:"secret" rule:"writeOnly"`
	HasSecret   bool                   `json:"has_secret" rule:"readOnly,notNull"`
	Serial      value.Optional[string] `json:"serial" rule:"maxLength=50,trim"`
	Fingerprint value.Optional[string] `json:"fingerprint" rule:"maxLength=64,trim"`
	CreatedAt   value.Timestamp        `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt   value.Timestamp        `json:"updated_at" rule:"readOnly,notNull"`
}

// Check reports a field that does not fit the kind.
func (c *Connection) Check(problems *server.Problems) {
	if c.Kind.IsNull() || c.Address.IsNull() {
		return // which has been reported
	}
	err := watch.Check(watch.Connection{Kind: string(*c.Kind.Value), Address: *c.Address.Value, Serial: c.Serial.Or(""),
		Fingerprint: c.Fingerprint.Or("")})
	if wrong, ok := errors.AsType[*watch.Problem](err); ok {
		problems.Add(wrong.Field, "%s", wrong.Text)
	}
}

const connectionColumns = `c.id as printer_id, c.kind, c.address, c.secret is not null as has_secret, c.serial,
	c.fingerprint, c.created_at, c.updated_at`

func readConnection(printer string) *db.Stmt {
	return db.SQL(`
		select `+connectionColumns+` from printer_connections c
		join printers p on p.id = c.id and p.hidden_at is null where c.id = $1`, printer)
}

var getConnectionDoc = &server.Doc{
	ID: "getPrinterConnection", Tag: Tag, Summary: "Get the connection of a printer",
	Description: "Returns where the printer is watched. No operation returns the secret: `has_secret` says whether " +
		"there is one.",
}

var putConnectionDoc = &server.Doc{
	ID: "putPrinterConnection", Tag: Tag, Summary: "Set the connection of a printer",
	Description: "Says where and how the printer is watched. The service watches printers and never commands them: it " +
		"sends no file, and starts, stops and heats nothing.\n\n" +
		"`secret` is the API key of the printer's software, or the access code of a bambu. The service stores it " +
		"encrypted and never returns it. Without `secret`, the connection keeps its secret, and without " +
		"`fingerprint` its fingerprint, if neither `kind` nor `address` nor `serial` changes: a secret never goes to " +
		"another address than that for which an admin entered it. `null` removes them.",
	Request: `{"kind":"moonraker","address":"http://192.168.1.20:7125","secret":"0123456789abcdef"}`,
}

func (c *Connections) put(ctx context.Context, r *server.Request[Connection]) (server.OK[Connection], error) {
	id, in := r.ID("id"), &r.In
	var secret []byte
	if !in.Secret.IsNull() {
		secret = c.vault.Seal(owner(ctx, id), []byte(*in.Secret.Value))
	}
	locked := db.SQL(`select id from printers where id = $1 and hidden_at is null for key share`, id)
	same := `(c.kind, c.address, c.serial) is not distinct from (excluded.kind, excluded.address, excluded.serial)`
	written := db.SQL(`
		insert into printer_connections as c (id, kind, address, secret, serial, fingerprint)
		select p.id, $2, $3, $4::bytea, $5, $6 from printers p where p.id = $1 and p.hidden_at is null
		on conflict (tenant_id, id) do update set kind = excluded.kind, address = excluded.address,
			secret = case when $7 or not `+same+` then excluded.secret else c.secret end, serial = excluded.serial,
			fingerprint = case when $8 or not `+same+` then excluded.fingerprint else c.fingerprint end,
			updated_at = now()
		returning `+connectionColumns, id, in.Kind.Arg(), in.Address.Arg(), secret, in.Serial.Arg(),
		in.Fingerprint.Arg(), in.Secret.Set, in.Fingerprint.Set)
	return server.One(written, c.db.Write(ctx, locked, written, wakeWatcher(id)))
}

var deleteConnectionDoc = &server.Doc{
	ID: "deletePrinterConnection", Tag: Tag, Summary: "Remove the connection of a printer",
	Description: "Deletes the connection with its secret. The printer is no longer watched from the service.",
}

func (c *Connections) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	deleted := db.SQL(`
		delete from printer_connections c using printers p
		where c.id = $1 and p.id = c.id and p.hidden_at is null returning c.id`, r.ID("id"))
	return nil, server.Found(deleted, c.db.Write(ctx, wakeWatcher(r.ID("id")), deleted))
}

// PrinterName is a printer in the list of names.
type PrinterName struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Number    int64           `json:"number" rule:"notNull"`
	Name      string          `json:"name" rule:"notNull"`
	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
}

// NameFilter selects the printers of the list of names.
type NameFilter struct {
	Name value.Optional[string] `query:"name"`
}

var namesDoc = &server.Doc{
	ID: "listPrinterNames", Tag: Tag, Summary: "List the names of printers",
	Description: "Returns the names of the printers that are not removed. It also accepts API keys of the role " +
		"`watcher`, which can read nothing else.",
}

func (f NameFilter) list() *server.List {
	l := server.NewList("printers", "id, number, name, created_at", "hidden_at is null", "printers")
	l.WhereText("name_key", f.Name)
	return l
}
