-- Custom fields of clients in printers. The texts are JSON that only these clients interpret.
create table printer_fields (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	entity text collate "C" not null check (entity in ('spool', 'filament', 'vendor')),
	key text collate "C" not null check (length(key) between 1 and 64),
	definition text not null check (length(definition) <= 10000),
	created_at timestamptz not null default now(),
	primary key (tenant_id, entity, key)
);
create table printer_extras (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	entity text collate "C" not null check (entity in ('spool', 'filament', 'vendor')),
	number int not null check (number > 0), -- of the spool, or the lowest number of the filament's or vendor's spools
	extra text not null check (length(extra) <= 100000),
	primary key (tenant_id, entity, number)
);
alter table printer_fields enable row level security, force row level security;
create policy tenant on printer_fields
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table printer_extras enable row level security, force row level security;
create policy tenant on printer_extras
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update, delete on printer_fields to spoolwright_app;
grant select, insert, update on printer_extras to spoolwright_app;
