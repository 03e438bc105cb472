// Package audit keeps the audit log of each farm: who signed in, and who changed users, API keys, settings and
// connections, exported, imported, removed or corrected something, when, and from where. Triggers write most of the
// entries, in the transaction of the change. The program also logs each entry; see db.
package audit

import (
	"context"
	"embed"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions and triggers of the log. Other packages call audit_add in their statements.
var Definitions = db.Definitions("auth", functions, "audit")

// Export returns a statement that adds an entry for an export of resources, such as spools. Exports send it with
// db.WriteLocal, so that they succeed while a synchronous standby is away.
func Export(resources string) *db.Stmt { return transferred("data.exported", resources) }

// Import returns a statement that adds an entry for an import of resources.
func Import(resources string) *db.Stmt { return transferred("data.imported", resources) }

// Undo returns a statement that adds an entry for the undo of an import of resources.
func Undo(resources string) *db.Stmt { return transferred("data.import_undone", resources) }

func transferred(action, resources string) *db.Stmt {
	return db.SQL(`select audit_add($1, $2)::text`, action, resources)
}

// FailedSignIn returns a statement that adds an entry for a failed sign-in of a user.
func FailedSignIn(user string) *db.Stmt { return failed(user, "sign_in.failed") }

// FailedCode returns a statement that adds an entry for a wrong code. The user is signed in or sent the right
// password.
func FailedCode(user string) *db.Stmt { return failed(user, "user.otp_failed") }

func failed(user, what string) *db.Stmt {
	return db.SQL(`select audit_failed_sign_in($1, $2)::text`, user, what)
}

// Trim deletes the entries older than 400 days of all tenants.
func Trim(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error {
		for ctx.Err() == nil {
			var deleted int64
			if err := d.Write(ctx, db.SQL(`select audit_trim()`).Into(&deleted)); err != nil || deleted == 0 {
				return err
			}
		}
		return ctx.Err()
	})
}

var tag = &server.Tag{
	Name: "audit-log", Fields: fields,
	Description: "Who did what in the farm, when, and from where. For admins. Nobody in the farm can change an entry; " +
		"entries are deleted after 400 days.",
}

//go:embed fields.md
var fields string

// Action is the kind of an entry: what was done.
type Action string

// Enum returns all actions.
func (Action) Enum() []string { return strings.Fields(actions) }

const actions = `
	sign_in sign_in.failed sign_in.more_failed sign_out session.ended session.reused
	user.created user.changed user.disabled user.enabled user.removed user.password_changed
	user.password_link_created user.password_set_by_link
	user.otp_enabled user.otp_disabled user.otp_reset user.otp_failed user.more_otp_failed
	user.recovery_code_used user.recovery_codes_renewed
	api_key.created api_key.changed api_key.rotated api_key.revoked
	settings.changed
	sign_on.created sign_on.changed sign_on.rotated sign_on.removed
	webhook.created webhook.changed webhook.disabled webhook.enabled webhook.rotated webhook.removed
	shop.created shop.changed shop.rotated shop.removed
	printer.created printer.changed printer.removed printer.restored
	printer_connection.created printer_connection.changed printer_connection.rotated printer_connection.removed
	custom_field.created custom_field.changed custom_field.removed
	data.exported data.imported data.import_undone
	spool.refilled spool.removed spool.restored filament.removed filament.restored vendor.removed vendor.restored
	product.removed product.restored order.removed order.restored run.removed run.restored stock_level.removed
	run.corrected run.reopened usage.reversed usage.moved`

// AuditEntry is an entry of the log.
type AuditEntry struct {
	ID         value.UUID                  `json:"id" rule:"notNull"`
	CreatedAt  value.Timestamp             `json:"created_at" rule:"notNull"`
	Action     Action                      `json:"action" rule:"notNull"`
	ActorKind  string                      `json:"actor_kind" rule:"notNull,unsorted,enum=user|api_key|command_line|service|unknown,named=ActorKind"`
	ActorID    value.UUID                  `json:"actor_id" rule:"unsorted"`
	ActorName  string                      `json:"actor_name" rule:"unsorted"`
	Address    string                      `json:"address" rule:"unsorted"`
	ObjectKind string                      `json:"object_kind" rule:"unsorted"`
	ObjectID   value.UUID                  `json:"object_id" rule:"unsorted"`
	ObjectName string                      `json:"object_name" rule:"unsorted"`
	Fields     value.Optional[value.Texts] `json:"fields" rule:"readOnly,notNull,unsorted"`
}

// Filter are the parameters of the list.
type Filter struct {
	Action      value.Optional[value.Set[Action]] `query:"action"`
	Actor       value.Optional[value.UUID]        `query:"actor_id"`
	CreatedFrom value.Optional[value.Moment]      `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]      `query:"created_to"`
}

func (f Filter) list() *server.List {
	l := server.NewList("audit_log", `id, created_at, action, actor_kind, actor_id, actor_name, address, object_kind,
		object_id, object_name, to_jsonb(fields) as fields`, "", "")
	l.WhereEach("action", f.Action)
	l.WhereEqual("actor_id", f.Actor)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	return l
}

// Routes returns the operations of /api/v1/audit-log.
func Routes(d *db.DB) []server.Route {
	return []server.Route{
		server.Op("GET /api/v1/audit-log", server.Admin, server.HandleList[AuditEntry](d, Filter.list), listDoc).ForUsers(),
	}
}

var listDoc = &server.Doc{
	ID: "listAuditLog", Tag: tag, Summary: "Read the audit log",
	Description: "Returns who signed in or failed to, who changed users, API keys, settings, the sign-on, webhooks, " +
		"connections to shops, printers, connections to printers or custom fields, and who exported, " +
		"imported, removed, restored or corrected something, newest " +
		"first. Everyday work such as deductions is not in the log. `actor_name` and `object_name` are the names of that " +
		"time. An entry has the names of fields, but not their values.\n\n" +
		"The actor of a failed sign-in is the user whose e-mail was sent. After ten in an hour, one `sign_in.more_failed` " +
		"reports the others.",
}
