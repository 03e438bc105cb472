-- API keys, and the directory that maps a key to its tenant.

create table api_keys (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	name text collate "C" not null check (length(name) <= 200),
	role text collate "C" not null check (role in ('viewer', 'operator', 'printer')),
	hint text collate "C" not null check (length(hint) <= 20), -- the start of the secret, for people
	hash bytea not null check (length(hash) = 32), -- SHA-256 of the secret
	previous_hash bytea check (length(previous_hash) = 32), -- of the secret before the last rotation
	previous_until timestamptz, -- when the previous secret expires
	created_by uuid, -- kept when the user is removed; null if the command line created the key
	created_at timestamptz not null default now(),
	expires_at timestamptz,
	last_used_at timestamptz,
	revoked_at timestamptz,
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);
create index api_keys_newest on api_keys (tenant_id, created_at, id);

alter table api_keys enable row level security, force row level security;
create policy tenant on api_keys
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update on api_keys to spoolwright_app;

-- Like login_directory, outside of tenancy: only the functions of the definition db/directory access it.
create table key_directory (
	hash bytea primary key check (length(hash) = 32),
	tenant_id uuid not null,
	key_id uuid not null
);

-- The ledger names the API key of a change where it would name a user. Without a rewrite of the table: the default is
-- set after the column is added.
alter table spool_usage add column api_key_id uuid;
alter table spool_usage alter column api_key_id set default nullif(current_setting('app.api_key_id', true), '')::uuid;
