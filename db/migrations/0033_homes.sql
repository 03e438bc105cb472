-- Several databases, with each tenant at home in one of them. The home 0 is the database with the login directory.

-- Identifies this database, so that a changed list of databases is noticed.
create table this_database (
	id uuid primary key default gen_random_uuid()
);
insert into this_database default values;
grant select on this_database to spoolwright_app;

-- In home 0: the databases of the other homes.
create table further_databases (
	home int primary key check (home > 0),
	id uuid not null unique,
	used boolean not null default false -- whether a tenant was ever at home there
);
grant select on further_databases to public;

-- In home 0, outside of tenancy like login_directory: where each tenant is at home. A tenant without a row is at home 0,
-- and has never moved.
create table tenant_homes (
	tenant_id uuid primary key,
	home int not null check (home >= 0),
	moves int not null default 0 -- how often the tenant has moved
);

-- In each home: the tenants that moved away. The row stays, because an instance may have remembered the old home.
create table tenant_departures (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	moves int not null, -- the number of the move; a transaction that knows of this move may enter
	home int not null, -- where the tenant moved
	primary key (tenant_id)
);
alter table tenant_departures enable row level security, force row level security;
create policy tenant on tenant_departures
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select on tenant_departures to spoolwright_app;
