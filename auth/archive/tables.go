package archive

import (
	"slices"
	"strings"

	"spoolwright/db/tables"
	"spoolwright/value"
)

// omitted maps each table that is not in a file to the reason. A file has the rows of all other tables of tenants.
var omitted = map[string]string{
	"sessions":         "a login belongs to this installation",
	"login_addresses":  "they are addresses that this installation trusts",
	"sign_on_uses":     "an answer of a provider goes to this installation",
	"idempotency_keys": "a repeated request goes to this installation, within a day",
	"login_directory":  "an import fills it from the users",
	"key_directory":    "an import fills it from the API keys",
	"shop_directory":   "an import fills it from the connections to shops",
	"tenant_directory": "a trigger fills it",
	"deleted_rows":     "clients that copy a farm follow this installation",
	"printer_leases":   "a watcher takes them from this installation",
	"queue_signals":    "an import fills it from the pending deliveries of webhooks",
	"queue_items":      "as queue_signals",
	"link_emails":      "this installation sends them",
	"webhook_emails":   "it counts what this installation sends",
	"usage_days":       "this installation makes it from the ledger",
	"usage_changes":    "as usage_days",
	"usage_summaries":  "as usage_days",
}

// last are the tables that an import fills last. Triggers of other tables send events to webhooks, so these must not
// exist yet, and add entries to audit_log, which the import then replaces.
var last = []string{"webhooks", "webhook_deliveries", "audit_log"}

// partial describes the rows of a table in a file without a part.
type partial struct {
	table   string
	has     func(Parts) bool
	from    string            // replaces the table as the source of the rows; "" means no rows
	columns map[string]string // the expressions that replace columns
}

var partials = []partial{
	{table: "users", has: func(p Parts) bool { return p.Users }},
	{table: "user_otps", has: func(p Parts) bool { return p.Users }},
	// The usage ledger shows the names of users who are not in the file.
	{table: "former_users", has: func(p Parts) bool { return p.Users }, from: `(
		select id, name, deleted_at from former_users union all select id, name, now() from users) u`},
	// The ledger and reports show the names of keys. No secret has a hash of zeros.
	{table: "api_keys", has: func(p Parts) bool { return p.Keys }, from: "api_keys", columns: map[string]string{
		"hash": `decode(repeat('00', 32), 'hex')`, "previous_hash": `null`, "previous_until": `null`,
		"revoked_at": `coalesce(revoked_at, now())`}},
	{table: "webhooks", has: func(p Parts) bool { return p.Webhooks }},
	{table: "webhook_deliveries", has: func(p Parts) bool { return p.Webhooks }},
	{table: "sign_on_providers", has: func(p Parts) bool { return p.Webhooks }},
	{table: "shops", has: func(p Parts) bool { return p.Webhooks }},
	{table: "printer_connections", has: func(p Parts) bool { return p.Webhooks }},
	{table: "shop_orders", has: func(p Parts) bool { return p.Webhooks }},
}

// tablesOf returns the tables that a file can contain, in the order in which an import fills them.
func tablesOf(all []tables.Table) []tables.Table {
	all = slices.DeleteFunc(slices.Clone(all), func(t tables.Table) bool { return omitted[t.Name] != "" })
	value.Sort(all, func(a, b tables.Table) int {
		return slices.Index(last, a.Name) - slices.Index(last, b.Name)
	})
	return all
}

// query returns the query for the rows of a table in a file with the parts, or "" if the file does not contain rows of
// the table.
func query(t tables.Table, parts Parts) string {
	from, values := t.Name, slices.Clone(t.Columns)
	for _, p := range partials {
		if p.table != t.Name || p.has(parts) {
			continue
		}
		from = p.from
		for i, column := range values {
			if value := p.columns[column]; value != "" {
				values[i] = value
			}
		}
	}
	if from == "" {
		return ""
	}
	return `select ` + strings.Join(values, ", ") + ` from ` + from
}
