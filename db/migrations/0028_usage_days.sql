-- What was used each day: a summary of the usage ledger, which reports read instead of it. The functions of the
-- definition inventory/rollup summarise a day when its ledger entries no longer change. Deductions do not touch these
-- tables. Each day has rows by filament, and others by printer with the same totals: rows by both would be nearly as many
-- as the entries.
create table usage_days (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	by_printer boolean not null,
	day date not null, -- in UTC
	material_type text collate "C" not null check (length(material_type) <= 20), -- '' by printer
	color_key text collate "C" not null check (length(color_key) <= 1000), -- '' by printer
	printer_key text collate "C" not null check (length(printer_key) <= 1000), -- '' by filament, and without a printer
	color text collate "C" check (length(color) <= 200),
	printer_name text collate "C" check (length(printer_name) <= 200),
	grams numeric(15,6) not null check (grams between -999999999 and 999999999),
	cost numeric(15,6) check (cost between -999999999 and 999999999), -- null if no spool had a price
	primary key (tenant_id, by_printer, day, material_type, color_key, printer_key)
);

-- The first day that is not in usage_days.
create table usage_summaries (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	next_day date not null,
	primary key (tenant_id)
);

-- Spools whose material, colour or price changed: the days with their usage must be summarised again. A row for each
-- change, so that changes do not wait for the summary, nor it for them.
create table usage_changes (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null default uuid_v7(),
	spool_id uuid not null,
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id)
);

alter table usage_days enable row level security, force row level security;
create policy tenant on usage_days
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table usage_summaries enable row level security, force row level security;
create policy tenant on usage_summaries
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table usage_changes enable row level security, force row level security;
create policy tenant on usage_changes
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, delete on usage_days to spoolwright_app;
grant select, insert, update on usage_summaries to spoolwright_app;
grant select, insert, delete on usage_changes to spoolwright_app;

create function usage_changed() returns trigger language plpgsql as $$
begin
	insert into usage_changes (tenant_id, spool_id) values (new.tenant_id, new.id);
	return null;
end $$;
create trigger usage_changed after update of material_type, color, purchase_price, net_weight_grams on spools
	for each row when (old.material_type is distinct from new.material_type or old.color is distinct from new.color
		or old.cost_per_gram is distinct from new.cost_per_gram)
	execute function usage_changed();
