package main

// failover are the sabotages of replication, failover, and fairness between tenants.
var failover = []sabotage{
	// Replication and failover.
	{"a commit that no standby confirmed is a success", "db/replication.go", "CustomData()[unreplicatedKey] != nil {", "CustomData()[unreplicatedKey] == \"\" {", "./db", "TestCommitWithoutStandby"},
	{"a notice is recognized by its English text", "db/replication.go", "strings.HasPrefix(n.Routine, \"SyncRepWait\") || ", "", "./db", "TestTranslatedNotice"},
	{"a transaction that no standby confirmed is not repeated", "db/query.go", "unknown := broken || errors.Is(err, errUnreplicated)", "unknown := broken", "./db", "TestCommitWithoutStandby"},
	{"a notice is left for the next transaction", "db/replication.go", "{ delete(conn.Conn().PgConn().CustomData(), unreplicatedKey) }", "{}", "./db", "TestCommitWithoutStandby"},
	{"a replay does not wait for the standby", "server/idempotency.go", "on conflict (tenant_id, user_id, key) do update\n\t\t\t\tset request = excluded.request, status = null, location = null, body = null, created_at = now()\n" +
		"\t\t\t\twhere k.created_at < now() - interval '24 hours'\n", "on conflict (tenant_id, user_id, key) do nothing\n", "./blackbox", "TestSynchronousStandbyAway"},
	{"a COMMIT without an answer is repeated", "db/errors.go", "pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)", "pgconn.SafeToRetry(err)", "./db", "TestCommitWithoutStandby"},
}
