package web

import (
	"slices"
	"strings"
	"time"

	"spoolwright/auth/audit"
)

type auditPage struct {
	listing
	Items []auditEntry
}

// auditEntry is an entry of the audit log, as the API returns it.
type auditEntry struct {
	Action     string
	At         *time.Time `json:"created_at"`
	ActorKind  string     `json:"actor_kind"`
	ActorName  string     `json:"actor_name"`
	Address    string
	ObjectKind string `json:"object_kind"`
	ObjectName string `json:"object_name"`
	Fields     []string
}

var actionNames = []word{
	{"sign_in", "Sign-in"}, {"sign_in.failed", "Sign-in failed"}, {"sign_in.more_failed", "More sign-ins failed"},
	{"sign_out", "Sign-out"}, {"session.ended", "Session ended"}, {"session.reused", "Old token used again"},
	{"user.created", "User created"}, {"user.changed", "User changed"}, {"user.disabled", "User disabled"},
	{"user.enabled", "User enabled"}, {"user.removed", "User removed"},
	{"user.password_changed", "User password changed"},
	{"user.password_link_created", "User password link created"},
	{"user.password_set_by_link", "User password set by link"},
	{"user.otp_enabled", "Second factor enabled"}, {"user.otp_disabled", "Second factor disabled"},
	{"user.otp_reset", "Second factor reset"}, {"user.otp_failed", "Wrong code"},
	{"user.more_otp_failed", "More wrong codes"},
	{"user.recovery_code_used", "User recovery code used"},
	{"user.recovery_codes_renewed", "User recovery codes renewed"},
	{"api_key.created", "API key created"}, {"api_key.changed", "API key changed"},
	{"api_key.rotated", "API key rotated"}, {"api_key.revoked", "API key revoked"},
	{"settings.changed", "Settings changed"},
	{"webhook.created", "Webhook created"}, {"webhook.changed", "Webhook changed"},
	{"webhook.disabled", "Webhook disabled"}, {"webhook.enabled", "Webhook enabled"},
	{"webhook.rotated", "Webhook rotated"}, {"webhook.removed", "Webhook removed"},
	{"shop.created", "Shop created"}, {"shop.changed", "Shop changed"}, {"shop.rotated", "Shop rotated"},
	{"shop.removed", "Shop removed"},
	{"printer.created", "Printer created"}, {"printer.changed", "Printer changed"},
	{"printer.removed", "Printer removed"}, {"printer.restored", "Printer restored"},
	{"sign_on.created", "Sign-on created"}, {"sign_on.changed", "Sign-on changed"},
	{"sign_on.rotated", "Sign-on rotated"}, {"sign_on.removed", "Sign-on removed"},
	{"printer_connection.created", "Printer connection created"},
	{"printer_connection.changed", "Printer connection changed"},
	{"printer_connection.rotated", "Printer connection rotated"},
	{"printer_connection.removed", "Printer connection removed"},
	{"custom_field.created", "Custom field created"}, {"custom_field.changed", "Custom field changed"},
	{"custom_field.removed", "Custom field removed"},
	{"data.exported", "Data exported"}, {"data.imported", "Data imported"},
	{"data.import_undone", "Data import undone"},
	{"spool.refilled", "Spool refilled"}, {"spool.removed", "Spool removed"}, {"spool.restored", "Spool restored"},
	{"filament.removed", "Filament removed"}, {"filament.restored", "Filament restored"},
	{"vendor.removed", "Vendor removed"}, {"vendor.restored", "Vendor restored"},
	{"product.removed", "Product removed"}, {"product.restored", "Product restored"},
	{"order.removed", "Order removed"}, {"order.restored", "Order restored"}, {"run.removed", "Run removed"},
	{"run.restored", "Run restored"}, {"stock_level.removed", "Stock level removed"},
	{"run.corrected", "Run corrected"}, {"run.reopened", "Run reopened"}, {"usage.reversed", "Usage reversed"},
	{"usage.moved", "Usage moved"},
}

// actorKinds are the names of actors that are not people.
var actorKinds = []word{{"api_key", "API key"}, {"command_line", "Command line"}, {"service", "Service"},
	{"unknown", "Unknown"}, {"user", "User"}}

// transferred are the names of what is exported and imported, beside exports.
var transferred = []word{{"farm", "Farm"}, {"filament catalog", "Filament catalog"},
	{"filaments and spools", "Filaments and spools"}, {"filament-report", "Filament report"},
	{"lot-report", "Lot report"}, {"pieces-report", "Pieces report"}, {"production-runs", "Production runs"},
	{"shopping-list", "Shopping list"}, {"usage", "Usage"}, {"usage-report", "Usage report"}}

// What returns what was done, in words.
func (e auditEntry) What(v view) string { return v.nameOf(actionNames, e.Action) }

// Object returns what was changed, unless the actor is the same.
func (e auditEntry) Object(v view) string {
	switch {
	case e.ObjectName != "" && (e.ObjectKind != "user" || e.ObjectName != e.ActorName):
		return e.ObjectName
	case strings.HasPrefix(e.Action, "data."):
		return v.nameOf(slices.Concat(transferred, exports), e.ObjectKind)
	}
	return ""
}

// Changed returns the fields that changed, in words.
func (e auditEntry) Changed(v view) string {
	var all []string
	for _, field := range e.Fields {
		all = append(all, v.label(field))
	}
	return commas(v, all)
}

// Who returns who did it.
func (e auditEntry) Who(v view) string {
	switch {
	case e.ActorName != "" && e.ActorKind == "api_key":
		return v.t("%s (API key)", e.ActorName)
	case e.ActorName != "":
		return e.ActorName
	}
	return v.nameOf(actorKinds, e.ActorKind)
}

var auditFilters = []filter{{"person", "actor_id", "Person", []word{anything}},
	{"action", "action", "What", []word{anything}},
	{"from", "created_from", "From|a date", nil}, {"to", "created_to", "Before|a date", nil}}

// showAuditLog shows the audit log, the newest entries first.
func showAuditLog(v *visit) error {
	p := &auditPage{}
	filters := slices.Clone(auditFilters)
	var people, keys found[struct{ ID, Name string }]
	err := v.fetch(get("/api/v1/users?limit=100&sort_by=name&sort_order=asc", &people),
		get("/api/v1/api-keys?limit=100&sort_by=name&sort_order=asc", &keys))
	if err != nil {
		return err
	}
	offered := map[string][]option{}
	for _, person := range people.Items {
		offered["person"] = append(offered["person"], option{person.ID, person.Name})
	}
	for _, key := range keys.Items {
		offered["person"] = append(offered["person"], option{key.ID, v.t("%s (API key)", key.Name)})
	}
	for _, action := range audit.Action("").Enum() {
		offered["action"] = append(offered["action"], option{action, v.nameOf(actionNames, action)})
	}
	l, query := v.listing("/settings/audit", entryNoun, filters, []listOrder{{"", "", "created_at", "desc"}},
		column{label: "What"}, column{label: "Who"}, column{label: "From|an address", class: "wide"},
		column{label: "When", class: "amount", by: "created_at", falls: true})
	l.data = offered
	p.listing = l
	err = v.fetch(read{path: "/api/v1/audit-log", query: query, into: p})
	if err = p.refused(err); err != nil {
		return err
	}
	return v.show(200, "audit", v.t("Log|of changes")+" · "+v.t("Settings"), p)
}
