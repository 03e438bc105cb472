-- Row counts, spools, and their usage ledger.

-- Lists answer their total from here: counting a large tenant's rows would cost more than the page. A count is spread
-- over shards by backend, so that concurrent creates of one tenant do not wait for each other; its value is the sum.
create table row_counts (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	resource text collate "C" not null,
	shard smallint not null,
	rows bigint not null,
	primary key (tenant_id, resource, shard)
) with (fillfactor = 50);

alter table row_counts enable row level security, force row level security;
create policy tenant on row_counts
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update on row_counts to spoolwright_app;

create function count_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name, pg_backend_pid() & 31, count(*) from added a group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

create function count_removed() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	values (old.tenant_id, tg_table_name, pg_backend_pid() & 31, -1)
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

create table spools (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	brand text collate "C" check (length(brand) <= 200),
	color text collate "C" not null check (length(color) <= 200),
	color_hex text collate "C" check (color_hex ~ '^#[0-9A-Fa-f]{6}$'),
	finish text collate "C" check (length(finish) <= 200),
	diameter_mm numeric(15,6) not null check (diameter_mm in (1.75, 2.85)),
	net_weight_grams numeric(15,6) not null check (net_weight_grams > 0 and net_weight_grams <= 1000000),
	remaining_weight_grams numeric(15,6) not null check (remaining_weight_grams >= 0 and remaining_weight_grams <= 1000000),
	spool_weight_grams numeric(15,6) check (spool_weight_grams >= 0 and spool_weight_grams <= 1000000),
	purchase_price numeric(15,6) check (purchase_price >= 0 and purchase_price <= 1000000),
	cost_per_gram numeric(15,6) generated always as (round(purchase_price / net_weight_grams, 6)) stored
		check (cost_per_gram <= 999999999),
	supplier text collate "C" check (length(supplier) <= 200),
	purchase_date date,
	notes text collate "C" check (length(notes) <= 10000),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	brand_key text collate "C" generated always as (lower(brand collate "und-x-icu") collate "C") stored,
	color_key text collate "C" not null generated always as (lower(color collate "und-x-icu") collate "C") stored,
	in_stock boolean not null generated always as (remaining_weight_grams > 0) stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);

-- What a deduction changes (remaining weight, updated_at) is in no index: that keeps such updates on their page (HOT).
create index spools_newest on spools (tenant_id, created_at, id) where hidden_at is null;
create index spools_material on spools (tenant_id, material_type, created_at, id) where hidden_at is null;
create index spools_brand on spools (tenant_id, brand_key, created_at, id) where hidden_at is null;
create index spools_color on spools (tenant_id, color_key, created_at, id) where hidden_at is null;
create index spools_in_stock on spools (tenant_id, in_stock, created_at, id) where hidden_at is null;

create trigger count_added after insert on spools referencing new table as added
	for each statement execute function count_added();
create trigger count_hidden after update of hidden_at on spools
	for each row when (old.hidden_at is null and new.hidden_at is not null) execute function count_removed();

-- The ledger: one row for each change of a spool's remaining weight, never changed, never deleted.
create table spool_usage (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null default uuid_v7(),
	spool_id uuid not null,
	kind text collate "C" not null check (kind in ('created', 'edited', 'deducted', 'run')),
	reason text collate "C" check (length(reason) <= 10000),
	run_id uuid,
	user_id uuid default nullif(current_setting('app.user_id', true), '')::uuid,
	before_grams numeric(15,6) not null,
	after_grams numeric(15,6) not null,
	change_grams numeric(15,6) not null generated always as (after_grams - before_grams) stored,
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id)
);
create index spool_usage_newest on spool_usage (tenant_id, spool_id, created_at, id);

alter table spools enable row level security, force row level security;
create policy tenant on spools
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table spool_usage enable row level security, force row level security;
create policy tenant on spool_usage
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update on spools to spoolwright_app;
grant select, insert on spool_usage to spoolwright_app;
