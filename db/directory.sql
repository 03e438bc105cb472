-- The only access to login_directory, tenant_directory, key_directory and shop_directory. These functions run with
-- their owner's privileges (security definer), so each does one narrow thing, has a fixed search_path, and may be
-- called by the service's role only.

-- Returns the tenant and the user of an e-mail address in lower case, or no row.
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

-- Deletes the entry of a user of the tenant that the transaction is bound to.
create or replace function login_drop(email text, login_user uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	delete from login_directory d where d.email_key = email and d.user_id = login_user
		and d.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

-- Enters a new tenant.
create or replace function tenant_created() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
	insert into tenant_directory (tenant_id) values (new.tenant_id) on conflict do nothing;
	return null;
end $$;
create or replace trigger tenant_created after insert on tenants for each row execute function tenant_created();

-- Returns the ids of all tenants, for the account commands, which bind to one tenant after the other. If tenants were
-- restored without triggers, tenant_directory lacks them; login_directory has the ids of those with users.
create or replace function login_tenants() returns setof uuid
language sql stable security definer set search_path = public, pg_temp as $$
	select t.tenant_id from tenant_directory t union select d.tenant_id from login_directory d order by 1
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

-- Returns the tenant of a connection to a shop, or no row.
create or replace function shop_find(shop uuid) returns setof uuid
language sql stable security definer set search_path = public, pg_temp as $$
	select d.tenant_id from shop_directory d where d.shop_id = shop
$$;

-- Enters a connection to a shop of the tenant that the transaction is bound to.
create or replace function shop_claim(shop uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	insert into shop_directory (shop_id, tenant_id)
		values (shop, nullif(current_setting('app.tenant_id', true), '')::uuid)
$$;

-- Deletes a connection to a shop of the tenant that the transaction is bound to.
create or replace function shop_drop(shop uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	delete from shop_directory d
	where d.shop_id = shop and d.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

revoke all on function tenant_created, login_find, login_claim, login_drop, login_tenants, key_find, key_claim,
	key_drop, shop_find, shop_claim, shop_drop from public;
grant execute on function login_find, login_claim, login_drop, login_tenants, key_find, key_claim,
	key_drop, shop_find, shop_claim, shop_drop to spoolwright_app;
