-- Tenants, their users and API keys, and what all features share. The migrations create the tables with their indexes,
-- checks and privileges. Functions, and the triggers, defaults and checks of whole rows that depend on functions, are
-- in the definitions, which run after the migrations: see CONTRIBUTING.md.

-- The role of every transaction of the service. It owns nothing. All databases of a cluster share their roles, so that
-- the migration of another database may create the role at the same time.
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

-- Makes a table a tenant table, and grants the service the privileges on it. The default of tenant_id is the tenant
-- that the transaction is bound to. Row-level security shows only the rows of that tenant, also to the owner of the
-- table.
create procedure tenant_table(name text, privileges text) language plpgsql as $$
declare
	tenant text := 'nullif(current_setting(''app.tenant_id'', true), '''')::uuid';
begin
	execute format('alter table %I alter tenant_id set not null, alter tenant_id set default %s,
		enable row level security, force row level security', name, tenant);
	-- A subquery is computed once for a statement, a plain expression for each row. Reads need the first for its plans;
	-- a check of one new row costs less with the second.
	execute format('create policy tenant on %I using (tenant_id = (select %s)) with check (tenant_id = %2$s)', name, tenant);
	execute format('grant %s on %I to spoolwright_app', privileges, name);
	-- Plans depend on current statistics, and index-only scans of lists depend on vacuuming.
	execute format('alter table %I set (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05,
		autovacuum_vacuum_insert_scale_factor = 0.05)', name);
end $$;

-- The definitions that are installed, with their versions.
create table schema_definitions (
	name text primary key,
	version int not null check (version > 0),
	sha256 text not null, -- of the definition's SQL, in hexadecimal digits
	applied_at timestamptz not null default now()
);
grant select on schema_definitions to public;

create table tenants (
	tenant_id uuid,
	name text collate "C" not null check (name <> '' and length(name) <= 200),
	created_at timestamptz not null default now(),
	-- The settings of the tenant.
	time_zone text collate "C" not null default 'UTC' check (length(time_zone) <= 100), -- for the days in reports
	currency text collate "C" check (currency ~ '^[A-Z]{3}$'),
	labour_hour_cost numeric(15,6) check (labour_hour_cost >= 0 and labour_hour_cost <= 1000000),
	machine_hour_cost numeric(15,6) check (machine_hour_cost >= 0 and machine_hour_cost <= 1000000),
	machine_power_watts numeric(15,6) check (machine_power_watts >= 0 and machine_power_watts <= 1000000),
	energy_kwh_cost numeric(15,6) check (energy_kwh_cost >= 0 and energy_kwh_cost <= 1000000),
	failure_rate_percent numeric(15,6) check (failure_rate_percent >= 0 and failure_rate_percent <= 99),
	failure_rate_measured boolean not null default false,
	sales_tax_percent numeric(15,6) not null default 0 check (sales_tax_percent >= 0 and sales_tax_percent <= 100),
	prices_include_tax boolean not null default false,
	exchange_rates jsonb not null default '[]', -- a list of objects with currency, rate and exchange_date
	-- Whether the delivery of an order assembles the pieces that are not in stock, if their components are.
	assemble_on_delivery boolean not null default true,
	-- Which runs wait for a person after a watched printer has ended them: those with a doubt, or all.
	confirm_runs text collate "C" not null default 'doubts' check (confirm_runs in ('doubts', 'all')),
	-- Which users must have a second factor. Without it, such users can only set it up.
	second_factor text collate "C" not null default 'optional' check (second_factor in ('optional', 'admins', 'all')),
	farm_url text collate "C" check (length(farm_url) <= 300), -- an origin; null means PUBLIC_URL
	-- The language of e-mails and messages, and of pages for users without one. Null means English, and the browser's.
	language text collate "C"
		check (language in ('de', 'en', 'es', 'fr', 'it', 'nl', 'pl', 'pt-BR', 'ja', 'zh-CN')),
	updated_at timestamptz not null default now(),
	primary key (tenant_id)
);
call tenant_table('tenants', 'select, insert');
grant update (time_zone, currency, labour_hour_cost, machine_hour_cost, machine_power_watts, energy_kwh_cost,
	failure_rate_percent, failure_rate_measured, sales_tax_percent, prices_include_tax, exchange_rates,
	assemble_on_delivery, confirm_runs, second_factor, farm_url, language, updated_at) on tenants to spoolwright_app;

create table users (
	tenant_id uuid,
	id uuid not null,
	email text collate "C" not null check (length(email) <= 320),
	name text collate "C" not null check (length(name) <= 200),
	role text collate "C" not null check (role in ('admin', 'operator', 'viewer')),
	password_hash text collate "C" not null,
	disabled_at timestamptz,
	link_hash bytea check (length(link_hash) = 32), -- SHA-256 of the token of the valid password link
	link_expires_at timestamptz,
	otp_at timestamptz, -- since when a login needs a code; null if it needs none
	otp_missing boolean not null default false, -- whether the user must set up a second factor first
	-- The account at a provider of OpenID Connect with which the user signs on. Null before the first time.
	sign_on_issuer text collate "C" check (length(sign_on_issuer) <= 300),
	sign_on_subject text collate "C" check (length(sign_on_subject) <= 255),
	language text collate "C" -- null means that of the farm or the browser
		check (language in ('de', 'en', 'es', 'fr', 'it', 'nl', 'pl', 'pt-BR', 'ja', 'zh-CN')),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, id),
	unique (tenant_id, sign_on_issuer, sign_on_subject),
	check ((sign_on_issuer is null) = (sign_on_subject is null)),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('users', 'select, insert, update, delete');
-- A copy of a table omits generated columns and columns with this comment.
comment on column users.otp_missing is 'computed';

-- Second factors: a code of an app (RFC 6238), or a recovery code, beside the password.
create table user_otps (
	tenant_id uuid,
	user_id uuid not null,
	id uuid not null, -- part of the encryption and the hashes; stays the same when the user moves to another tenant
	secret bytea not null check (length(secret) <= 200), -- encrypted
	created_at timestamptz not null,
	last_step bigint not null default 0, -- the step of the last code that was used: the number of 30 seconds since 1970
	recovery_hashes bytea[] not null default '{}' check (cardinality(recovery_hashes) <= 10), -- SHA-256 of unused codes
	-- Wrong codes from addresses that are not known, since a time.
	wrong_codes int not null default 0 check (wrong_codes >= 0),
	wrong_since timestamptz,
	primary key (tenant_id, user_id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
call tenant_table('user_otps', 'select, insert, update, delete');

-- The last e-mail with a password link for each user. It waits until the mail server has accepted or refused it, or
-- until the service gives up. The link is made when the e-mail is sent, so that no table has its token.
create table link_emails (
	tenant_id uuid,
	user_id uuid not null,
	kind text collate "C" not null check (kind in ('invitation', 'password')),
	requested_at timestamptz not null default now(),
	tries int not null default 0 check (tries >= 0),
	next_try_at timestamptz, -- null when it was sent or refused
	ended_at timestamptz, -- when it was sent or refused
	error text check (length(error) <= 1000), -- of the last try; null if it was sent
	primary key (tenant_id, user_id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
call tenant_table('link_emails', 'select, insert, update, delete');

-- The provider of OpenID Connect with which users of the farm sign on.
create table sign_on_providers (
	tenant_id uuid,
	id uuid not null, -- part of the encryption of the secret
	issuer text collate "C" not null check (length(issuer) <= 300),
	client_id text collate "C" not null check (length(client_id) <= 200),
	secret bytea check (length(secret) <= 4100), -- encrypted; null for a public client
	secret_at timestamptz, -- when it was entered, which a new encryption does not change
	email_domain text collate "C" check (length(email_domain) <= 200), -- of persons who become users
	role_claim text collate "C" check (length(role_claim) <= 100),
	admin_value text collate "C" check (length(admin_value) <= 200),
	operator_value text collate "C" check (length(operator_value) <= 200),
	viewer_value text collate "C" check (length(viewer_value) <= 200),
	factors text[] collate "C" not null default '{}' check (cardinality(factors) <= 100), -- values of amr and acr
	required boolean not null default false, -- whether a login by password is refused
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	primary key (tenant_id),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('sign_on_providers', 'select, insert, update, delete');

-- The sign-ons that have ended, so that an answer of a provider has no effect when it is sent again.
create table sign_on_uses (
	tenant_id uuid,
	state bytea not null check (length(state) = 32), -- SHA-256 of the parameter state
	used_at timestamptz not null,
	primary key (tenant_id, state),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('sign_on_uses', 'select, insert, delete');

-- The names of deleted users, which the usage ledger shows.
create table former_users (
	tenant_id uuid,
	id uuid not null,
	name text collate "C" not null check (length(name) <= 200),
	deleted_at timestamptz not null default now(),
	primary key (tenant_id, id)
);
call tenant_table('former_users', 'select, insert');

-- Logins. Each refresh raises the counter.
create table sessions (
	tenant_id uuid,
	id uuid not null,
	user_id uuid not null,
	counter bigint not null default 1,
	created_at timestamptz not null,
	refreshed_at timestamptz not null, -- when the counter was last raised
	expires_at timestamptz not null,
	signed_on boolean not null default false, -- whether it began at the farm's provider of OpenID Connect
	factor_met boolean not null default false, -- whether the provider confirmed a second factor
	primary key (tenant_id, id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
create index sessions_user on sessions (tenant_id, user_id);
call tenant_table('sessions', 'select, insert, update, delete');

-- The addresses from which each user logged in or refreshed a session. Attempts from these addresses do not count for
-- the limit of failed logins of an account.
create table login_addresses (
	tenant_id uuid,
	user_id uuid not null,
	address text collate "C" not null check (length(address) <= 100),
	used_at timestamptz not null,
	-- Wrong codes of second factors from the address, since a time.
	wrong_codes int not null default 0 check (wrong_codes >= 0),
	wrong_since timestamptz,
	primary key (tenant_id, user_id, address),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
call tenant_table('login_addresses', 'select, insert, update, delete');

create table api_keys (
	tenant_id uuid,
	id uuid not null,
	name text collate "C" not null check (length(name) <= 200),
	role text collate "C" not null check (role in ('viewer', 'operator', 'printer', 'watcher')),
	hint text collate "C" not null check (length(hint) <= 20), -- the start of the secret, for people
	hash bytea not null check (length(hash) = 32), -- SHA-256 of the secret
	previous_hash bytea check (length(previous_hash) = 32), -- SHA-256 of the secret before the last rotation
	previous_until timestamptz, -- when the previous secret expires
	printer_id uuid, -- the printer whose reports the key sends; a foreign key in the next migration
	created_by uuid, -- kept when the user is removed; null if the command line created the key
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(), -- unchanged when last_used_at changes
	expires_at timestamptz,
	last_used_at timestamptz,
	revoked_at timestamptz,
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);
create index api_keys_newest on api_keys (tenant_id, created_at, id);
call tenant_table('api_keys', 'select, insert, update');

-- Responses to POST requests with an Idempotency-Key, kept for a day.
create table idempotency_keys (
	tenant_id uuid,
	user_id uuid not null,
	key text collate "C" not null check (length(key) between 1 and 255),
	request bytea not null, -- SHA-256 of path and body
	status int,
	location text collate "C",
	body bytea,
	created_at timestamptz not null default now(),
	primary key (tenant_id, user_id, key)
);
create index idempotency_keys_oldest on idempotency_keys (tenant_id, created_at);
call tenant_table('idempotency_keys', 'select, insert, update, delete');

-- The last number, and the total of the list, of each kind; see the definition db/counts.
create table counters (
	tenant_id uuid,
	kind text collate "C" not null check (length(kind) <= 100), -- the name of a table
	last int not null check (last >= 0),
	total bigint not null,
	primary key (tenant_id, kind)
) with (fillfactor = 50);
call tenant_table('counters', 'select, insert, update');

-- What was deleted for good in the last 30 days, of the resources with lists; see the definition db/hidden.
create table deleted_rows (
	tenant_id uuid,
	deleted_at timestamptz not null default now(),
	resource text collate "C" not null check (length(resource) <= 50), -- such as production-runs
	id uuid not null,
	primary key (tenant_id, deleted_at, resource, id)
);
call tenant_table('deleted_rows', 'select, insert, delete');

-- The first steps of a new farm.
create table first_steps (
	tenant_id uuid,
	hidden_at timestamptz, -- when an admin hid the steps
	samples_at timestamptz, -- when the farm was filled with sample data; null if it has none
	primary key (tenant_id)
);
call tenant_table('first_steps', 'select, insert, update');

-- The ids of the rows that are sample data: of vendors, filaments, spools, stock levels, printers, products, orders
-- and runs. What belongs to such a row is sample data, too. Only rows with these ids, and what belongs to them, can be
-- deleted with delete_samples.
create table sample_rows (
	tenant_id uuid,
	id uuid not null,
	primary key (tenant_id, id)
);
call tenant_table('sample_rows', 'select, insert, delete');

-- The meaning of the columns of a farm's last file of each kind, for the next one.
create table import_columns (
	tenant_id uuid,
	resources text collate "C" not null check (length(resources) <= 50), -- such as spools
	mapping text collate "C" not null check (length(mapping) <= 100000), -- JSON: fields by titles; "" is left out
	primary key (tenant_id, resources),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('import_columns', 'select, insert, update');

-- Who did what in a farm, when and from where. The function audit_add, in the definition auth/audit, inserts the rows.
create table audit_log (
	tenant_id uuid,
	id uuid not null, -- made by uuid_v7
	created_at timestamptz not null default now(),
	action text collate "C" not null check (length(action) between 1 and 60),
	actor_kind text collate "C" not null check (actor_kind in ('user', 'api_key', 'command_line', 'service', 'unknown')),
	actor_id uuid, -- a user or an API key, kept when the user is removed
	actor_name text collate "C" check (length(actor_name) <= 200), -- as it was then
	address text collate "C" check (length(address) <= 64), -- of the client
	object_kind text collate "C" check (length(object_kind) <= 60),
	object_id uuid, -- kept when the object is removed
	object_name text collate "C" check (length(object_name) <= 200), -- as it was then
	fields text[] collate "C" not null default '{}' check (cardinality(fields) <= 100), -- the fields that changed
	primary key (tenant_id, id)
);
-- Nobody in the farm can change an entry; audit_trim deletes the old ones.
call tenant_table('audit_log', 'select, insert');

create index audit_log_newest on audit_log (tenant_id, created_at, id);
create index audit_log_action on audit_log (tenant_id, action, created_at, id);
create index audit_log_actor on audit_log (tenant_id, actor_id, created_at, id);

-- Tables outside of tenancy: they list all tenants, and the tenant of each login and API key. Only the functions of
-- the definition db/directory access them.
create table login_directory (
	email_key text collate "C" primary key,
	tenant_id uuid not null,
	user_id uuid not null
);
create table tenant_directory ( -- includes tenants without a user
	tenant_id uuid primary key
);
create table key_directory (
	hash bytea primary key check (length(hash) = 32),
	tenant_id uuid not null,
	key_id uuid not null
);
