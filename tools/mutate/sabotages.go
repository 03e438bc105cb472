package main

import "strings"

// sabotage is a way to break the program, and the tests that must notice.
type sabotage struct {
	name           string
	file, old, new string
	pkg, tests     string
}

const (
	accounts   = "db/migrations/0001_accounts.sql"
	spools     = "db/migrations/0002_spools.sql"
	catalog    = "db/migrations/0003_catalog.sql"
	production = "db/migrations/0004_production.sql"
)

// logout is the code that deletes a session of the caller, and of no other user.
const logout = "\tif err != nil || token.UserID != caller.User || token.TenantID != caller.Tenant {\n" +
	"\t\treturn nil, s.db.CheckActor(ctx)\n" +
	"\t}\n" +
	"\treturn nil, s.db.Write(ctx,\n" +
	"\t\tdb.SQL(`delete from sessions where id = $1 and user_id = $2`, token.SessionID, caller.User))"

var sabotages = []sabotage{
	// How farms are kept apart.
	{"the ledger has no policy", spools, "create policy tenant on spool_usage\n\tusing (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))",
		"create policy tenant on spool_usage\n\tusing (true)", "./db", "TestCatalog|TestTenantIsolation"},
	{"row-level security does not bind the owner of spools", spools, "alter table spools enable row level security, force row level security;",
		"alter table spools enable row level security;", "./db", "TestCatalogPolicies|TestOpenErrors"},
	{"a policy checks nothing that is written", production, "create policy tenant on run_items\n\tusing (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))\n\twith check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));",
		"create policy tenant on run_items\n\tusing (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))\n\twith check (true);", "./db", "TestCatalogPolicies|TestTenantIsolation"},
	{"a foreign key lacks the tenant", production, "create index run_materials_run on run_materials", "create unique index spools_id on spools (id);\nalter table run_materials drop constraint run_materials_tenant_id_spool_id_fkey, " +
		"add foreign key (spool_id) references spools (id);\ncreate index run_materials_run on run_materials", "./db", "TestCatalogTenantKeys|TestTenantIsolation"},
	{"a foreign key is missing", production, "	foreign key (tenant_id, spool_id) references spools (tenant_id, id),\n", "", "./db", "TestCatalogTenantKeys|TestTenantIsolation"},
	{"an SKU is unique across all tenants", catalog, "create unique index products_sku on products (tenant_id, sku)", "create unique index products_sku on products (sku, tenant_id)", "./db", "TestCatalogTenantKeys"},
	{"the service may change the ledger", spools, "grant select, insert on spool_usage", "grant select, insert, update on spool_usage", "./db", "TestCatalogPrivileges"},
	{"the transaction keeps the rights of its login", "db/bind.sql", "perform set_config('role', 'spoolwright_app', true),", "perform", "./db", "TestOpenErrors|TestSettingsAreLocal|TestNoTenant|TestCatalog|TestRoles"},
	{"the tenant stays on the connection", "db/bind.sql", "set_config('app.tenant_id', coalesce(tenant::text, ''), true)", "set_config('app.tenant_id', coalesce(tenant::text, ''), false)", "./db", "TestSettingsAreLocal|TestNoTenant"},
	{"a caller's role is not checked again", "db/bind.sql", "u.id = caller and u.role = caller_role and", "u.id = caller and", "./db", "TestRevokedCaller"},
	{"a disabled caller passes", "db/bind.sql", " and u.disabled_at is null\n\t) then", "\n\t) then", "./db", "TestRevokedCaller"},
	{"the login directory answers everybody", "db/directory.sql",
		"revoke all on function login_find, login_claim, login_tenants from public;",
		"grant execute on function login_find, login_claim, login_tenants to public;", "./db", "TestLoginDirectory|TestCatalogFunctions"},

	// What is installed of the SQL functions.
	{"an older program replaces newer SQL functions", "db/definition.go", "return r.version > d.Version || r ==", "return r ==", "./db", "TestDefinition"},
	{"definitions are not checked again under the lock", "db/definition.go",
		"\t\tif pending, err = pendingDefinitions(ctx, tx, all); err != nil {\n\t\t\treturn err\n\t\t}\n", "", "./db", "TestDefinitionsAtOnce"},
	{"a replaced function loses its settings", "inventory/use.sql", " set plan_cache_mode = force_generic_plan", "", "./db", "TestDefinitionsKeepAttributes"},

	// What is deducted, and how often.
	{"complete does not lock the run", "production/complete.sql", "where r.id = target for no key update;", "where r.id = target;", "./production", "TestConcurrentCompletes|TestCompleteConcurrentWithMaterials"},
	{"complete does not look whether it was done", "production/complete.sql", "if run.deducted_at is not null then", "if false then", "./production", "TestConcurrentCompletes|TestCompleteErrors"},
	{"complete does not lock the spools", "inventory/use.sql", "	perform from spools s where s.id = any (spool_ids) order by s.id for no key update;\n", "", "./blackbox", "TestCompleteLocksSpoolsInOrder"},
	{"complete locks the spools in any order", "inventory/use.sql", "where s.id = any (spool_ids) order by s.id for no key update", "join unnest(spool_ids) with ordinality u (id, n) on u.id = s.id order by u.n for no key update of s", "./blackbox", "TestCompleteLocksSpoolsInOrder"},
	{"complete takes from a removed spool", "inventory/use.sql", "where s.hidden_at is not null or s.remaining_weight_grams < used.total", "where s.remaining_weight_grams < used.total", "./production", "TestCompleteErrors"},
	{"a material may be added to a completed run", "production/material.go", "select id from production_runs where id = $2 and deducted_at is null for share\n\t\t), m as (", "select id from production_runs where id = $2\n\t\t), m as (", "./production", "TestCompletedRunIsFixed|TestCompleteConcurrentWithMaterials"},
	{"adding a material does not wait for complete", "production/material.go", "deducted_at is null for share\n\t\t), m as (", "deducted_at is null\n\t\t), m as (", "./production", "TestCompleteConcurrentWithMaterials"},
	{"an edit of the weight does not lock the spool", "inventory/spool.go", "hidden_at is null for no key update", "hidden_at is null", "./inventory", "TestConcurrentEditsAndDeductions"},
	{"more than is left can be deducted", "inventory/usage.go", "and hidden_at is null and remaining_weight_grams >= $2::numeric", "and hidden_at is null", "./inventory", "TestDeductRefused|TestConcurrentDeductions"},
	{"a removed spool can be deducted from", "inventory/usage.go", "where id = $1 and hidden_at is null and remaining_weight_grams", "where id = $1 and remaining_weight_grams", "./inventory", "TestNotFound|TestConcurrentDelete|TestDeduct"},
	{"a removed spool is listed", "inventory/spool.go", `server.NewList("spools", spoolColumns, "hidden_at is null", "spools")`, `server.NewList("spools", spoolColumns, "", "spools")`, "./inventory", "TestFarm|TestSpoolStory|TestTotal|TestList"},
	{"totals are not counted down", "db/counts.sql", "values (old.tenant_id, tg_table_name, pg_backend_pid() & 31, -1)", "values (old.tenant_id, tg_table_name, pg_backend_pid() & 31, 0)", "./inventory", "TestTotal|TestSpoolStory"},
	{"a status can be changed after complete", "production/run.go", `open = fmt.Sprintf(" and (deducted_at is null or status = $%d)", len(args))`, `open = fmt.Sprintf(" and $%d::text is not null", len(args))`, "./production", "TestCompletedRunIsFixed"},

	// What products cost.
	{"changes of one catalog do not wait for each other", "catalog/cost.go", "select pg_advisory_xact_lock(hashtextextended('catalog ' || current_setting('app.tenant_id'), 0))::text", "select 1::text", "./catalog", "TestConcurrent"},
	{"a cost is rounded twice", "catalog/costs.sql", "div(o.weight_grams * p.amount * 2000000 + p.grams, p.grams * 2) * 0.000001 as cost", "round(o.weight_grams * round(p.amount / p.grams, 6), 6) as cost", "./catalog", "TestCostsAreRoundedOnce|TestCostsEqualModel"},
	{"a removed spool tells a price", "inventory/prices.sql",
		"where s.material_type = w.material_type and s.color_key = w.color_key\n\t\t\t\tand s.hidden_at is null and s.cost_per_gram is not null",
		"where s.material_type = w.material_type and s.color_key = w.color_key\n\t\t\t\tand s.cost_per_gram is not null", "./catalog", "TestCostsEqualModel"},
	{"a product may contain itself", "catalog/component.go", "when exists (select from below b where b.id = $1) then 'COMPONENT_CYCLE'", "when false then 'COMPONENT_CYCLE'", "./catalog", "TestComponentErrors"},

	// Who is calling.
	{"the algorithm of tokens is not pinned", "auth/token.go", "jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),\n", "\n", "./auth", "TestToken"},
	{"the issuer of tokens is not checked", "auth/token.go", "!valid || c.Issuer != issuer ||", "!valid ||", "./auth", "TestToken"},
	{"a refresh token is an access token", "auth/token.go", "len(c.Audience) != 1 || c.Audience[0] != audience ||", "", "./auth", "TestToken"},
	{"tokens never expire", "auth/token.go", "if !now.Before(c.ExpiresAt.Time) {", "if false {", "./auth", "TestTokenLifetime"},
	{"a token seen before never expires", "auth/token.go", "if !t.now().Before(token.expires) {", "if false {", "./auth", "TestTokenCache"},
	{"tokens are told apart by their first half", "auth/token.go", "hash := sha256.Sum256([]byte(raw))", "hash := sha256.Sum256([]byte(raw[:len(raw)/2]))", "./auth", "TestToken"},
	{"another role needs another login", "auth/user.go", "($5::text is not null or", "($5::text is not null or c.new_role <> c.role or", "./auth", "User"},
	{"the last admin may leave", "auth/user.go", "o.role = 'admin' and o.disabled_at is null)", "o.role = 'admin')", "./auth", "Admin|User"},
	{"changes of a tenant's users run concurrently", "auth/user.go", "select pg_advisory_xact_lock(hashtextextended('users ' || current_setting('app.tenant_id'), 0))::text", "select 1::text", "./auth", "TestLastAdminRace"},
	{"the caller of a change of a user is not checked again", "auth/user.go", "		db.SQL(`select bind_tenant($1, $2, $3)::text`, caller.Tenant, caller.User, caller.Role),\n", "		db.SQL(`select $1 || $2 || $3`, caller.Tenant, caller.User, caller.Role),\n", "./auth", "TestLastAdminRace"},
	{"who is disabled keeps the sessions", "auth/user.go", " or c.new_disabled and not c.disabled)", ")", "./auth", "Admin|User"},
	{"a new password keeps the sessions", "auth/user.go", "($5::text is not null or c.new_disabled", "(c.new_disabled", "./auth", "Admin|User"},
	{"the current password is not asked for", "auth/user.go", "	case !right:\n", "	case !right && old == \"\":\n", "./auth", "Password"},
	// Either of its two checks is enough: both are taken away.
	{"logout ends the session of somebody else", "auth/auth.go", logout, strings.NewReplacer("token.UserID != caller.User || ", "", " and user_id = $2`, token.SessionID, caller.User)", "`, token.SessionID)").Replace(logout), "./auth", "TestLogout"},
	{"a refresh token lives on after it was used", "auth/auth.go", "s.counter = $3 + 1 and s.refreshed_at >= $6)", "s.counter = $3 + 1)", "./auth", "TestRefresh"},
	{"reuse of a refresh token ends nothing", "auth/auth.go", "ended := db.SQL(`delete from sessions s where s.id = $1 and s.user_id = $2", "ended := db.SQL(`delete from sessions s where false and s.id = $1 and s.user_id = $2", "./auth", "TestRefresh"},
	{"a lost answer logs out", "auth/auth.go", "and (s.counter = $3 or s.counter = $3 + 1 and s.refreshed_at >= $6)", "and (s.counter = $3 or s.counter = $3 + 1 and s.refreshed_at >= $6 and false)", "./auth", "TestRefresh"},
	{"failed logins lock out known addresses", "auth/auth.go", "return err == nil && user.knownAddress, err", "return false, err", "./auth", "TestKnownAddress"},
	{"every address is known", "auth/auth.go", "a.user_id = u.id and a.address = $2 and a.used_at > $3)", "a.user_id = u.id and $2 <> '' and a.used_at > $3)", "./auth", "TestKnownAddress"},
	{"an address is known for ever", "auth/auth.go", "a.user_id = u.id and a.address = $2 and a.used_at > $3)", "a.user_id = u.id and a.address = $2 and $3 > '-infinity'::timestamptz)", "./auth", "TestKnownAddress"},
	{"a refresh does not make its address known", "auth/auth.go", "alive, ended, rememberAddress(token, r.Address, now))", "alive, ended)", "./auth", "TestKnownAddress"},
	{"known addresses have no bound", "auth/auth.go", "order by o.used_at desc limit $6)", "order by o.used_at desc limit 1000 * $6)", "./auth", "TestKnownAddress"},
	{"failed logins lock out sessions", "auth/throttle.go", "fmt.Appendf(nil, \"%d %s\", source, account)", "fmt.Appendf(nil, \"%d %s\", Anonymous, account)", "./auth", "TestKnownAddress|TestThrottle"},
	{"running logins are failures", "auth/throttle.go", "	case !slices.ContainsFunc(a.all, func(a *attempt) bool { return a.running }):", "	case true:", "./auth", "TestThrottle|TestConcurrentSlowLogins"},
	{"guesses at once are not counted", "auth/throttle.go", "		t.windows[i].add(keys[i], a)\n", "		if false {\n			t.windows[i].add(keys[i], a)\n		}\n", "./auth", "TestThrottle|TestConcurrentGuesses"},
	{"a viewer may write", "server/operation.go", "case info.caller.Level < o.route.Access:", "case info.caller.Level < o.route.Access && r.Method == \"TRACE\":", "./server", "TestAccess"},

	// What is taken in.
	{"bodies have no bound", "server/decode.go", "io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))", "io.ReadAll(r.Body)", "./server", "TestBodySize"},
	{"bodies may be nested as deep as they like", "server/decode.go", "if depth > maxDepth {", "if depth > 1000*maxDepth {", "./server", "TestBody"},
	{"a key may be there twice", "server/decode.go", "if keys[key] {", "if keys[key] && depth > 1000 {", "./server", "TestBody"},
	{"unknown fields are ignored", "server/decode.go", "if unknown++; unknown <= maxUnknown {", "if unknown++; unknown < 0 {", "./server", "TestBody"},
	{"invalid UTF-8 is taken in", "server/decode.go", "if !utf8.Valid(body) {", "if !utf8.Valid(body) && len(body) < 0 {", "./server", "TestBody"},
	{"only one of the limits counts", "server/limit.go", "		if wait == 0 {\n", "		if wait == 0 && i == 0 {\n", "./server", "TestLimiter"},
	{"a refused request takes from a bucket all the same", "server/limit.go", "		if wait == 0 {\n", "		if wait == 0 || i == 1 {\n", "./server", "TestLimiter"},
	{"a key stands for every request", "server/idempotency.go", "if !slices.ContainsFunc(requests, func(request []byte) bool { return bytes.Equal(first, request) }) {", "if !slices.ContainsFunc(requests, func(request []byte) bool { return bytes.Equal(first, request) }) && len(first) < 0 {", "./blackbox", "TestIdempotencyKeys"},
	{"a key never expires", "server/idempotency.go", "where k.created_at < now() - interval '24 hours'\n", "where k.created_at < now() - interval '24 days'\n", "./blackbox", "TestIdempotencyKeys"},
	{"a broken write is sent again without a key", "db/query.go", "again := isTransient(err) || broken && neverSent(err) || unknown && repeatable", "again := isTransient(err) || unknown", "./db", "TestBackendIsKilled"},
	{"passwords are hashed in the order of arrival", "auth/queue.go", "next := slices.MinFunc(q.waiting, func(a, b *waiter) int { return slices.Compare(a.turns(), b.turns()) })", "next := q.waiting[0]", "./auth", "Delay"},
	{"logins of one account delay the others", "auth/auth.go", "\"account \"+email, \"address \"+r.Address)", "\"logins\")", "./auth", "Delay"},
	{"password changes of one tenant delay the others", "auth/user.go", "return \"tenant \" + db.ActorOf(ctx).Tenant", "return \"changes\"", "./auth", "Delay"},
	{"hashing has no bound", "auth/password.go", "newQueue(runtime.GOMAXPROCS(0))", "newQueue(1000 * runtime.GOMAXPROCS(0))", "./auth", "TestHasherIsBounded"},
	{"an import leaves bad rows out", "inventory/import.go", "if err == nil && result.Invalid > 0 && !skipInvalid {", "if err == nil && result.Invalid > 1 && !skipInvalid {", "./inventory", "Import"},
	{"a repeated import enters spools twice", "inventory/import.go", "			on conflict (tenant_id, external_key) where external_key is not null do nothing\n", "", "./inventory", "Spoolman"},
	{"an import has no ledger", "inventory/import.go", "			select id, 'created', 0, remaining_weight_grams from added\n", "			select id, 'created', 0, remaining_weight_grams from added where false\n", "./inventory", "Import"},
	{"the load balancer is told nothing", "server/server.go", "	s.draining.Store(true)\n", "", "./blackbox", "TestProgram/Graceful"},
	{"internal errors are not retried", "db/errors.go", "|| internalError(err) != nil", "", "./db", "TestInternalErrorIsRetried"},
	{"deadlocks are not retried", "db/query.go", "again := isTransient(err) || ", "again := ", "./db", "TestDeadlockIsRetried"},

	// Roles, and the private PostgreSQL.
	{"a login that is not a member gets no advice", "db/db.go", "pg.Code == \"42501\" ||", "", "./db", "TestRoles"},
	{"a hot standby counts as ready", "db/local/postmaster.go", "st.pid == p.pid && !recovering {", "st.pid == p.pid {",
		"./db/local", "TestArchiveRecovery"},
	{"an archive recovery is stopped", "db/local/postmaster.go", "	if s.inArchiveRecovery() {\n", "	if false {\n",
		"./db/local", "TestArchiveRecovery"},
	{"an archive recovery is stopped in its last steps", "db/local/recovery.go",
		" || s.controlState() == stateArchiveRecovery", "", "./db/local", "TestArchiveRecovery"},
	{"the installation in PATH does not come first", "db/local/binaries.go",
		"folders = append(folders, filepath.Dir(p))", "_ = filepath.Dir(p)", "./db/local", "TestPathComesFirst"},
}
