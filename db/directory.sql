-- The only access to login_directory and key_directory. These functions run with their owner's privileges (security
-- definer), so each does one narrow thing, has a fixed search_path, and may be called by the service's role only.

-- Returns the tenant and the user of an e-mail address in its compared form, or no row.
create or replace function login_find(email text) returns table (tenant_id uuid, user_id uuid)
language sql stable security definer set search_path = public, pg_temp as $$
	select d.tenant_id, d.user_id from login_directory d where d.email_key = email
$$;

-- Enters the e-mail address of a user of the tenant that the transaction is bound to. A unique violation means
-- that the address is taken, by any tenant.
create or replace function login_claim(email text, login_user uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	insert into login_directory (email_key, tenant_id, user_id)
	values (email, nullif(current_setting('app.tenant_id', true), '')::uuid, login_user)
$$;

-- Returns the ids of all tenants that have a user, for the account commands, which bind to one tenant after the
-- other.
create or replace function login_tenants() returns setof uuid
language sql stable security definer set search_path = public, pg_temp as $$
	select distinct d.tenant_id from login_directory d order by 1
$$;

-- Returns the tenant and the id of the API key whose secret has the SHA-256, or no row.
create or replace function key_find(key_hash bytea) returns table (tenant_id uuid, key_id uuid)
language sql stable security definer set search_path = public, pg_temp as $$
	select d.tenant_id, d.key_id from key_directory d where d.hash = key_hash
$$;

-- Enters the SHA-256 of the secret of an API key of the tenant that the transaction is bound to.
create or replace function key_claim(key_hash bytea, api_key uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	insert into key_directory (hash, tenant_id, key_id)
	values (key_hash, nullif(current_setting('app.tenant_id', true), '')::uuid, api_key)
$$;

-- Deletes the SHA-256 of a secret of the tenant that the transaction is bound to.
create or replace function key_drop(key_hash bytea) returns void
language sql security definer set search_path = public, pg_temp as $$
	delete from key_directory d
	where d.hash = key_hash and d.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

revoke all on function login_find, login_claim, login_tenants, key_find, key_claim, key_drop from public;
grant execute on function login_find, login_claim, login_tenants, key_find, key_claim, key_drop to spoolwright_app;
