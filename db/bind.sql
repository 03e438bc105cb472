-- Binds the current transaction to a tenant: sets the role that row-level security applies to, the schemas (a
-- temporary table cannot replace a table), the tenant, the user that the ledger records, and the timeouts. All
-- settings are local to the transaction, so that nothing remains on a pooled connection. A null tenant binds to no
-- tenant: no row of any tenant is visible.
--
-- If caller is not null, the user must exist in the tenant, be enabled, and have caller_role; otherwise the
-- function raises SW401.
create or replace function bind_tenant(tenant uuid, caller uuid, caller_role text) returns void language plpgsql as $$
begin
	perform set_config('role', 'spoolwright_app', true),
		set_config('search_path', 'public, pg_temp', true),
		set_config('app.tenant_id', coalesce(tenant::text, ''), true),
		set_config('app.user_id', coalesce(caller::text, ''), true),
		set_config('statement_timeout', '8s', true),
		set_config('lock_timeout', '5s', true),
		set_config('idle_in_transaction_session_timeout', '15s', true);
	if caller is not null and not exists (
		select from users u
		where u.tenant_id = tenant and u.id = caller and u.role = caller_role and u.disabled_at is null
	) then
		raise exception 'the caller is unknown, disabled, or has another role' using errcode = 'SW401';
	end if;
end $$;

-- Binds the current transaction to a tenant on behalf of an API key, as bind_tenant does on behalf of a user. The
-- ledger then records the key. The key must exist in the tenant, must not be revoked or expired, and key_hash must be
-- the SHA-256 of its secret, or of its previous secret until that expires; otherwise the function raises SW402.
create or replace function bind_key(tenant uuid, api_key uuid, key_hash bytea) returns void language plpgsql as $$
begin
	perform bind_tenant(tenant, null, null), set_config('app.api_key_id', api_key::text, true);
	if not exists (
		select from api_keys k
		where k.tenant_id = tenant and k.id = api_key and k.revoked_at is null
			and (k.expires_at is null or k.expires_at > now())
			and (k.hash = key_hash or k.previous_hash = key_hash and k.previous_until > now())
	) then
		raise exception 'the API key is unknown, revoked or expired' using errcode = 'SW402';
	end if;
end $$;

-- Raises an error with the SQLSTATE code, for a condition in an expression.
create or replace function refuse(code text, message text) returns text language plpgsql as $$
begin
	raise exception '%', message using errcode = code;
end $$;
