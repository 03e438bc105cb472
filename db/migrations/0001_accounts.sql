-- Tenants, users, sessions, and the login directory.

-- The role that every transaction takes. It owns nothing; attributes belong into CREATE ROLE. Roles are shared by all
-- databases of a cluster, so another database's migration may win the race.
do $$
begin
	if not exists (select from pg_roles where rolname = 'spoolwright_app') then
		create role spoolwright_app nologin nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
	end if;
exception
	when duplicate_object or unique_violation then null;
	when insufficient_privilege then
		raise exception 'the role spoolwright_app is missing and % may not create it; run as an administrator: CREATE ROLE spoolwright_app NOLOGIN; GRANT spoolwright_app TO %', current_user, current_user;
end $$;

grant usage on schema public to spoolwright_app;

-- A UUIDv7, for rows that a statement makes by itself.
create function uuid_v7() returns uuid language sql volatile parallel safe as $$
	select encode(
		set_bit(set_bit(
			overlay(uuid_send(gen_random_uuid())
				placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
				from 1 for 6),
			52, 1), 53, 1),
		'hex')::uuid
$$;

create table tenants (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	name text collate "C" not null check (name <> '' and length(name) <= 200),
	created_at timestamptz not null default now(),
	primary key (tenant_id)
);

create table users (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	email text collate "C" not null check (length(email) <= 320),
	name text collate "C" not null check (length(name) <= 200),
	role text collate "C" not null check (role in ('admin', 'operator', 'viewer')),
	password_hash text collate "C" not null,
	disabled_at timestamptz,
	created_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);

-- One row per login. Each refresh raises the counter; refreshed_at is when it was last raised.
create table sessions (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	user_id uuid not null,
	counter bigint not null default 1,
	refreshed_at timestamptz not null,
	expires_at timestamptz not null,
	primary key (tenant_id, id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
create index sessions_user on sessions (tenant_id, user_id);

create table login_directory (
	email_key text collate "C" primary key,
	tenant_id uuid not null,
	user_id uuid not null
);

alter table tenants enable row level security, force row level security;
create policy tenant on tenants
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table users enable row level security, force row level security;
create policy tenant on users
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table sessions enable row level security, force row level security;
create policy tenant on sessions
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));

grant select, insert on tenants to spoolwright_app;
grant select, insert, update on users to spoolwright_app;
grant select, insert, update, delete on sessions to spoolwright_app;

-- Binds the transaction: the role that row-level security binds, the tenant, the timeouts; and checks the caller.
-- Everything is local to the transaction, so nothing leaks through a connection pooler.
create function bind_tenant(tenant uuid, caller uuid, caller_role text) returns void language plpgsql as $$
begin
	perform set_config('role', 'spoolwright_app', true),
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

-- The directory is reached by these functions only. They run as their owner and so see it; each does one thing.
create function login_find(email text) returns table (tenant_id uuid, user_id uuid)
language sql stable security definer set search_path = public, pg_temp as $$
	select d.tenant_id, d.user_id from login_directory d where d.email_key = email
$$;

-- Enters a login of the tenant that the transaction is bound to; of no other.
create function login_claim(email text, login_user uuid) returns void
language sql security definer set search_path = public, pg_temp as $$
	insert into login_directory (email_key, tenant_id, user_id)
	values (email, nullif(current_setting('app.tenant_id', true), '')::uuid, login_user)
$$;

-- The ids of all tenants, for the account commands, which go through them one by one.
create function login_tenants() returns setof uuid
language sql stable security definer set search_path = public, pg_temp as $$
	select distinct d.tenant_id from login_directory d order by 1
$$;

revoke all on function login_find, login_claim, login_tenants from public;
grant execute on function login_find, login_claim, login_tenants to spoolwright_app;
