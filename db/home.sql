-- The only access to tenant_homes, which like the login directory is outside of tenancy, and to entries of the login
-- directory whose user does not exist. As in directory.sql, the functions run with their owner's privileges, and each
-- does one narrow thing.

-- Returns the home of a tenant and how often it has moved, or no row for one that has never left home 0.
create or replace function home_find(tenant uuid) returns table (home int, moves int)
language sql stable security definer set search_path = public, pg_temp as $$
	select h.home, h.moves from tenant_homes h where h.tenant_id = tenant
$$;

-- Makes the database with the number the home of the new tenant that the transaction is bound to, if it has none yet.
create or replace function home_claim(number int) returns void
language sql security definer set search_path = public, pg_temp as $$
	update further_databases f set used = true where f.home = number and not f.used;
	insert into tenant_homes (tenant_id, home)
	values (nullif(current_setting('app.tenant_id', true), '')::uuid, number)
	on conflict do nothing
$$;

-- Returns the number of tenants that have a user, for each home that has one.
create or replace function home_counts() returns table (home int, number bigint)
language sql stable security definer set search_path = public, pg_temp as $$
	select coalesce(h.home, 0), count(distinct d.tenant_id)
	from login_directory d left join tenant_homes h on h.tenant_id = d.tenant_id group by 1
$$;

-- Enters the id of the database with the number, and returns the id that is entered for it, or null if the id is that
-- of another number, or of this database.
create or replace function home_register(number int, database uuid) returns uuid
language plpgsql security definer set search_path = public, pg_temp as $$
begin
	insert into further_databases (home, id)
	select number, database where not exists (select from this_database t where t.id = database)
	on conflict do nothing;
	return (select f.id from further_databases f where f.home = number
		and not exists (select from further_databases o where o.id = database and o.home <> number));
end $$;

-- Deletes the entry of a user of the tenant that the transaction is bound to.
create or replace function login_drop(email text, login_user uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	delete from login_directory d where d.email_key = email and d.user_id = login_user
		and d.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

revoke all on function home_find, home_claim, home_counts, home_register, login_drop from public;
grant execute on function home_find, home_claim, home_counts, home_register, login_drop to spoolwright_app;
