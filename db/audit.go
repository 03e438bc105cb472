package db

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
)

// PostgreSQL reports each entry that a transaction adds to the audit log by a message with this SQLSTATE. The program
// logs the entries after the transaction is committed.
const auditCode = "SW300"

// auditKey is the key of the entries in a connection's custom data: the JSON of each entry since beginWrite.
const auditKey = "spoolwright.audit"

// logEntries logs entries of the audit log. The entries of commands are only in the log of the farm.
func (d *DB) logEntries(entries []string) {
	for _, text := range entries {
		var e struct {
			Tenant     string   `json:"tenant_id"`
			ID         string   `json:"id"`
			Action     string   `json:"action"`
			ActorKind  string   `json:"actor_kind"`
			Actor      string   `json:"actor_id"`
			ActorName  string   `json:"actor_name"`
			Address    string   `json:"address"`
			ObjectKind string   `json:"object_kind"`
			Object     string   `json:"object_id"`
			ObjectName string   `json:"object_name"`
			Fields     []string `json:"fields"`
		}
		if json.Unmarshal([]byte(text), &e) != nil || e.ActorKind == "command_line" {
			continue
		}
		attrs := []slog.Attr{
			slog.String("action", e.Action), slog.String("tenant", e.Tenant), slog.String("entry", e.ID),
			slog.String("actor_kind", e.ActorKind), slog.String("actor_id", e.Actor), slog.String("actor_name", e.ActorName),
			slog.String("address", e.Address), slog.String("object_kind", e.ObjectKind), slog.String("object_id", e.Object),
			slog.String("object_name", e.ObjectName), slog.Any("fields", e.Fields),
		}
		attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.Equal(slog.StringValue("")) })
		d.log.LogAttrs(context.Background(), slog.LevelInfo, "audit", attrs...)
	}
}
