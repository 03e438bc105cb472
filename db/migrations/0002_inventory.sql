-- Vendors, filaments, spools, their usage ledger and its daily summaries, and stock levels.
--
-- The indexes of lists have a predicate that PostgreSQL does not conclude from other conditions, such as "hidden_at is
-- null" or an id, so that only statements with the same predicate use them. A statement that selects a row by its id
-- then uses the primary key, also when it was planned while the table was empty and all indexes cost the same. For the
-- same reason, the indexes of lists without filters, and of filters by columns that are never null, have a condition
-- that is always true: server.Newest or server.Filtered.

create table vendors (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('vendors')
	name text collate "C" not null check (length(name) <= 200), -- '' only by clients of the API of Spoolman
	notes text collate "C" check (length(notes) <= 10000),
	empty_spool_weight_grams numeric(15,6) check (empty_spool_weight_grams between 0 and 1000000),
	external_id text collate "C" check (length(external_id) <= 200),
	extra jsonb not null default '{}' check (length(extra::text) <= 100000), -- values of custom fields
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	name_key text collate "C" generated always as (lower(name collate "und-x-icu") collate "C") stored,
	external_id_key text collate "C" generated always as (lower(external_id collate "und-x-icu") collate "C") stored,
	-- See server.Searchable. A word of a search contains no line break, so that it does not match across two fields.
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		name || E'\n' || coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
);
call tenant_table('vendors', 'select, insert, update, delete');

create unique index vendors_number on vendors (tenant_id, number) where num_nonnulls(number) = 1;
create unique index vendors_name on vendors (tenant_id, name_key)
	where hidden_at is null and name_key is not null;
create index vendors_newest on vendors (tenant_id, created_at, id)
	where hidden_at is null and created_at > '-infinity';
create index vendors_external_id on vendors (tenant_id, external_id_key, created_at, id)
	where hidden_at is null and external_id_key is not null;
create index vendors_hidden on vendors (tenant_id, created_at, id) where hidden_at is not null;
-- Finds what changed lately, for WebSockets.
create index vendors_updated on vendors (tenant_id, updated_at) where num_nonnulls(updated_at) = 1;

create table filaments (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('filaments')
	vendor_id uuid,
	vendor_name text collate "C" check (length(vendor_name) <= 200), -- that of the vendor
	-- Clients of the API of Spoolman can create filaments without a name or a material, which are '' then: null means
	-- that they see the colour, or the material type.
	name text collate "C" check (length(name) <= 200),
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	material_name text collate "C" check (length(material_name) <= 200),
	color text collate "C" not null check (length(color) <= 200),
	color_hex text collate "C" check (color_hex ~ '^#([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$'),
	color_hexes text[] collate "C" not null default '{}'
		check (cardinality(color_hexes) <= 10 and length(array_to_string(color_hexes, '')) <= 90),
	color_arrangement text collate "C" check (color_arrangement in ('coaxial', 'longitudinal')),
	diameter_mm numeric(15,6) not null check (diameter_mm in (1.75, 2.85)),
	density_g_cm3 numeric(15,6) check (density_g_cm3 > 0 and density_g_cm3 <= 100),
	net_weight_grams numeric(15,6) check (net_weight_grams > 0 and net_weight_grams <= 1000000),
	spool_weight_grams numeric(15,6) check (spool_weight_grams between 0 and 1000000),
	price numeric(15,6) check (price between 0 and 1000000),
	extruder_temperature_c int check (extruder_temperature_c between 0 and 1000),
	bed_temperature_c int check (bed_temperature_c between 0 and 1000),
	article_number text collate "C" check (length(article_number) <= 200),
	external_id text collate "C" check (length(external_id) <= 200),
	notes text collate "C" check (length(notes) <= 10000),
	extra jsonb not null default '{}' check (length(extra::text) <= 100000),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	vendor_key text collate "C" generated always as (lower(vendor_name collate "und-x-icu") collate "C") stored,
	color_key text collate "C" not null generated always as (lower(color collate "und-x-icu") collate "C") stored,
	article_number_key text collate "C"
		generated always as (lower(article_number collate "und-x-icu") collate "C") stored,
	external_id_key text collate "C" generated always as (lower(external_id collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		material_type || E'\n' || coalesce(material_name, '') || E'\n' || coalesce(vendor_name, '') ||
		E'\n' || coalesce(name, '') || E'\n' || color || E'\n' || coalesce(article_number, '') ||
		E'\n' || coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id),
	foreign key (tenant_id, vendor_id) references vendors (tenant_id, id)
);
call tenant_table('filaments', 'select, insert, update, delete');

create unique index filaments_number on filaments (tenant_id, number) where num_nonnulls(number) = 1;
create index filaments_newest on filaments (tenant_id, created_at, id)
	where hidden_at is null and created_at > '-infinity';
create index filaments_vendor_id on filaments (tenant_id, vendor_id, created_at, id) where vendor_id is not null;
create index filaments_vendor on filaments (tenant_id, vendor_key, created_at, id)
	where hidden_at is null and vendor_key is not null;
create index filaments_material on filaments (tenant_id, material_type, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index filaments_color on filaments (tenant_id, color_key, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index filaments_article_number on filaments (tenant_id, article_number_key, created_at, id)
	where hidden_at is null and article_number_key is not null;
create index filaments_external_id on filaments (tenant_id, external_id_key, created_at, id)
	where hidden_at is null and external_id_key is not null;
create index filaments_hidden on filaments (tenant_id, created_at, id) where hidden_at is not null;
create index filaments_updated on filaments (tenant_id, updated_at) where num_nonnulls(updated_at) = 1;

-- Filaments that can be bought, from a file of SpoolmanDB.
create table filament_catalog (
	tenant_id uuid,
	id uuid not null,
	external_id text collate "C" not null check (length(external_id) between 1 and 200), -- in SpoolmanDB
	vendor text collate "C" not null check (length(vendor) <= 200),
	name text collate "C" not null check (length(name) <= 200),
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	material_name text collate "C" not null check (length(material_name) <= 200),
	color text collate "C" not null check (length(color) <= 200),
	color_hex text collate "C" check (color_hex ~ '^#([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$'),
	color_hexes text[] collate "C" not null default '{}'
		check (cardinality(color_hexes) <= 10 and length(array_to_string(color_hexes, '')) <= 90),
	color_arrangement text collate "C" check (color_arrangement in ('coaxial', 'longitudinal')),
	diameter_mm numeric(15,6) not null check (diameter_mm > 0 and diameter_mm <= 10),
	density_g_cm3 numeric(15,6) not null check (density_g_cm3 > 0 and density_g_cm3 <= 100),
	net_weight_grams numeric(15,6) not null check (net_weight_grams > 0 and net_weight_grams <= 1000000),
	spool_weight_grams numeric(15,6) check (spool_weight_grams between 0 and 1000000),
	extruder_temperature_c int check (extruder_temperature_c between 0 and 1000),
	bed_temperature_c int check (bed_temperature_c between 0 and 1000),
	spool_type text collate "C" check (length(spool_type) <= 200),
	finish text collate "C" check (length(finish) <= 200),
	pattern text collate "C" check (length(pattern) <= 200),
	translucent boolean not null default false,
	glow boolean not null default false,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	vendor_key text collate "C" generated always as (lower(vendor collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		vendor || E'\n' || name || E'\n' || material_type || E'\n' || material_name || E'\n' ||
		coalesce(finish, '') || E'\n' || coalesce(pattern, '') || E'\n' || coalesce(spool_type, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
);
call tenant_table('filament_catalog', 'select, insert, update, delete');

create unique index filament_catalog_external_id on filament_catalog (tenant_id, external_id);
create index filament_catalog_newest on filament_catalog (tenant_id, created_at, id) where created_at > '-infinity';
create index filament_catalog_vendor on filament_catalog (tenant_id, vendor_key, created_at, id)
	where vendor_key is not null;
create index filament_catalog_material on filament_catalog (tenant_id, material_type, created_at, id)
	where num_nonnulls(material_type) = 1;

-- The last numbers of the resources other than spools; see next_number.
create table last_numbers (
	tenant_id uuid,
	resource text collate "C" not null check (length(resource) <= 100),
	last int not null check (last > 0),
	primary key (tenant_id, resource)
);
call tenant_table('last_numbers', 'select, insert, update');

-- What a deduction changes (remaining_weight_grams, updated_at) is in no index: such updates stay on their page (HOT).
-- PostgreSQL parses the checks and the expressions of generated columns of a table again for each statement that
-- changes it, which would take a third of the time of a deduction. In the definition inventory/rows, the function
-- valid_spool has the checks, and the trigger spool_computed sets cost_per_gram and the columns that end in _key.
create table spools (
	tenant_id uuid,
	id uuid not null,
	-- 1, 2, 3, ... within the tenant, never used again; by default next_spool_number(). valid_spool checks that it is
	-- not null. It is not declared so: PostgreSQL 17 and later would remove "number is not null" from statements, and
	-- then not use the index spools_number.
	number int,
	filament_id uuid, -- whose material, vendor, colour, diameter and density the spool has
	material_type text collate "C" not null,
	brand text collate "C",
	color text collate "C" not null,
	color_hex text collate "C",
	finish text collate "C",
	diameter_mm numeric(15,6) not null,
	density_g_cm3 numeric(15,6),
	net_weight_grams numeric(15,6) not null,
	remaining_weight_grams numeric(15,6) not null,
	spool_weight_grams numeric(15,6),
	purchase_price numeric(15,6),
	cost_per_gram numeric(15,6)
		check (cost_per_gram <= 999999999), -- the name of this check is that of an error which clients can cause
	supplier text collate "C",
	purchase_date date,
	lot_number text collate "C",
	location text collate "C",
	notes text collate "C",
	extra jsonb not null default '{}', -- values of custom fields
	archived boolean not null default false,
	first_used_at timestamptz,
	last_used_at timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	edited_at timestamptz, -- when the spool was edited, hidden or restored last
	hidden_at timestamptz,
	in_stock boolean not null generated always as (remaining_weight_grams > 0) stored,
	brand_key text collate "C",
	color_key text collate "C" not null,
	supplier_key text collate "C",
	location_key text collate "C",
	lot_key text collate "C",
	search_key text collate "C" not null,
	primary key (tenant_id, id),
	foreign key (tenant_id, filament_id) references filaments (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('spools', 'select, insert, update');
-- A copy of a table leaves out columns with this comment, as it does generated columns.
comment on column spools.cost_per_gram is 'computed';
comment on column spools.brand_key is 'computed';
comment on column spools.color_key is 'computed';
comment on column spools.supplier_key is 'computed';
comment on column spools.location_key is 'computed';
comment on column spools.lot_key is 'computed';
comment on column spools.search_key is 'computed';

create unique index spools_number on spools (tenant_id, number) where number is not null;
create index spools_newest on spools (tenant_id, archived, created_at, id)
	where hidden_at is null and created_at > '-infinity';
create index spools_material on spools (tenant_id, material_type, archived, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index spools_brand on spools (tenant_id, brand_key, archived, created_at, id)
	where hidden_at is null and brand_key is not null;
create index spools_color on spools (tenant_id, color_key, archived, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index spools_in_stock on spools (tenant_id, in_stock, archived, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index spools_supplier on spools (tenant_id, supplier_key, archived, created_at, id)
	where hidden_at is null and supplier_key is not null;
create index spools_location on spools (tenant_id, location_key, archived, created_at, id)
	where hidden_at is null and location_key is not null;
create index spools_lot on spools (tenant_id, lot_key, archived, created_at, id)
	where hidden_at is null and lot_key is not null;
create index spools_filament on spools (tenant_id, filament_id, archived, created_at, id)
	where hidden_at is null and filament_id is not null;
-- For filaments from spools.
create index spools_without_filament on spools (tenant_id, number)
	where filament_id is null and hidden_at is null and num_nonnulls(number) = 1;
-- For the quantities of filaments and for their changes, which concern all spools.
create index spools_filament_stock on spools (tenant_id, filament_id, in_stock) where filament_id is not null;
create index spools_hidden on spools (tenant_id, created_at, id) where hidden_at is not null;
-- For the price of filament.
create index spools_price on spools (tenant_id, material_type, color_key)
	where hidden_at is null and cost_per_gram is not null;
-- Finds the spools that changed lately together with spool_usage_printed, without an index on columns that a deduction
-- changes: those of new ledger entries, whose ids contain their time; those of reports that extend an entry of the
-- last hour; and those with a new edited_at.
create index spools_edited on spools (tenant_id, edited_at) where edited_at is not null;

-- The printers of the farm. A printer without materials prints all.
create table printers (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('printers')
	name text collate "C" not null check (name <> '' and length(name) <= 200),
	model text collate "C" check (length(model) <= 200),
	location text collate "C" check (length(location) <= 200),
	notes text collate "C" check (length(notes) <= 10000),
	nozzle_mm numeric(15,6) check (nozzle_mm > 0 and nozzle_mm <= 10),
	slots int not null default 1 check (slots between 1 and 64),
	materials text[] collate "C" not null default '{}' check (cardinality(materials) <= 10 and
		materials <@ '{PLA,PETG,ABS,TPU,ASA,Nylon,PC,HIPS,PVA,Custom}'::text[] collate "C"),
	hour_cost numeric(15,6) check (hour_cost between 0 and 1000000),
	power_watts numeric(15,6) check (power_watts between 0 and 1000000),
	status text collate "C" not null default 'available' check (status in ('available', 'maintenance', 'retired')),
	maintenance_interval_hours numeric(15,6)
		check (maintenance_interval_hours > 0 and maintenance_interval_hours <= 1000000),
	maintained_at timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(), -- of the printer and its slots
	hidden_at timestamptz,
	name_key text collate "C" generated always as (lower(name collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		name || E'\n' || coalesce(model, '') || E'\n' || coalesce(location, '') || E'\n' ||
		coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
);
call tenant_table('printers', 'select, insert, update, delete');

create unique index printers_number on printers (tenant_id, number) where num_nonnulls(number) = 1;
create unique index printers_name on printers (tenant_id, name_key)
	where hidden_at is null and name_key is not null;
create index printers_newest on printers (tenant_id, created_at, id)
	where hidden_at is null and created_at > '-infinity';
create index printers_status on printers (tenant_id, status, created_at, id)
	where hidden_at is null and num_nonnulls(status) = 1;
create index printers_hidden on printers (tenant_id, created_at, id) where hidden_at is not null;

alter table api_keys add foreign key (tenant_id, printer_id) references printers (tenant_id, id);
create index api_keys_printer on api_keys (tenant_id, printer_id) where printer_id is not null;

-- The spools that are loaded: at most one in a slot of a printer, and each spool in at most one slot.
create table printer_slots (
	tenant_id uuid,
	printer_id uuid not null,
	slot int not null check (slot between 1 and 64),
	spool_id uuid not null,
	previous_location text collate "C" check (length(previous_location) <= 200), -- of the spool, before it was loaded
	loaded_at timestamptz not null default now(),
	primary key (tenant_id, printer_id, slot),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id) on delete cascade,
	foreign key (tenant_id, spool_id) references spools (tenant_id, id)
);
call tenant_table('printer_slots', 'select, insert, update, delete');

create unique index printer_slots_spool on printer_slots (tenant_id, spool_id);

-- What imports from Spoolman have created, so that the next import changes what has changed in Spoolman since.
create table spoolman_items (
	tenant_id uuid,
	entity text collate "C" not null check (entity in ('vendor', 'filament', 'spool')),
	key text collate "C" not null check (length(key) <= 500), -- the id and the time of registration in Spoolman
	item uuid not null, -- the id of the vendor, filament or spool, which may be deleted
	source text collate "C" not null check (length(source) <= 100000), -- the columns as imported last, as JSON
	primary key (tenant_id, entity, key)
);
call tenant_table('spoolman_items', 'select, insert, update');

-- The last number of a spool that an import has reserved; see reserve_spool_numbers.
create table spool_numbers (
	tenant_id uuid,
	reserved int not null check (reserved > 0),
	primary key (tenant_id)
);
call tenant_table('spool_numbers', 'select, insert, update');

-- The ledger: an entry for each change of a spool's remaining weight. Reports of a printer that follow each other are
-- one entry, which grows; all other entries are never changed. The function valid_usage has the checks.
create table spool_usage (
	tenant_id uuid,
	id uuid not null, -- by default uuid_v7()
	spool_id uuid not null,
	kind text collate "C" not null,
	reason text collate "C",
	run_id uuid, -- the run that used the filament
	printer_id uuid, -- that of the run, or else of the API key or of the slot of the spool
	user_id uuid default nullif(current_setting('app.user_id', true), '')::uuid,
	api_key_id uuid default nullif(current_setting('app.api_key_id', true), '')::uuid,
	before_grams numeric(15,6) not null,
	after_grams numeric(15,6) not null,
	change_grams numeric(15,6) not null generated always as (after_grams - before_grams) stored,
	shortfall_grams numeric(15,6), -- used, but not there; negative if the end of a run found that less was short
	covered_grams numeric(15,6), -- reported after the end of the run, whose use a person had stated by then
	report_token bigint, -- identifies the last report in the entry; null if the report had an idempotency key
	created_at timestamptz not null default clock_timestamp(),
	updated_at timestamptz, -- when the entry grew last
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id)
);
call tenant_table('spool_usage', 'select, insert');
grant update (after_grams, shortfall_grams, covered_grams, report_token, updated_at) on spool_usage to spoolwright_app;
create policy printed on spool_usage as restrictive for update using (kind = 'printed') with check (kind = 'printed');

create index spool_usage_newest on spool_usage (tenant_id, spool_id, created_at, id);
-- For reports and the export; the time of an entry and that in its id differ. Only statements with the predicate use
-- the index, so that none with a spool or an id reads the whole ledger with it.
create index spool_usage_times on spool_usage (tenant_id, created_at, id) where num_nonnulls(created_at) = 1;
create index spool_usage_printer on spool_usage (tenant_id, printer_id, created_at, id) where printer_id is not null;
-- For what a run has used.
create index spool_usage_run on spool_usage (tenant_id, run_id, spool_id) where run_id is not null;
create index spool_usage_printed on spool_usage (tenant_id, id) where kind = 'printed';

-- What was used each day: a summary of the ledger, which reports read instead of it. The functions of the definition
-- inventory/rollup summarise a day when its entries no longer change. Deductions do not touch these tables. Each day
-- has rows by filament, and others by printer with the same totals: rows by both would be nearly as many as the
-- entries.
create table usage_days (
	tenant_id uuid,
	by_printer boolean not null,
	day date not null, -- in the time zone of usage_summaries
	material_type text collate "C" not null check (length(material_type) <= 20), -- '' by printer
	color_key text collate "C" not null check (length(color_key) <= 1000), -- '' by printer
	-- The printer's id, or else its name or that of the API key; '' by filament, and without a printer.
	printer_key text collate "C" not null check (length(printer_key) <= 1000),
	color text collate "C" check (length(color) <= 200),
	printer_name text collate "C" check (length(printer_name) <= 200),
	grams numeric(15,6) not null check (grams between -999999999 and 999999999),
	cost numeric(15,6) check (cost between -999999999 and 999999999), -- null if no spool had a price
	primary key (tenant_id, by_printer, day, material_type, color_key, printer_key)
);
call tenant_table('usage_days', 'select, insert, delete');

-- The first day that is not in usage_days, and the time zone of the days there. If that is not the tenant's, the days
-- do not count; it is null while they are deleted.
create table usage_summaries (
	tenant_id uuid,
	next_day date not null,
	time_zone text collate "C" check (length(time_zone) <= 100),
	primary key (tenant_id)
);
call tenant_table('usage_summaries', 'select, insert, update');

-- Spools whose material, colour or price changed: the days with their usage must be summarised again. A row for each
-- change, so that changes do not wait for the summary, nor it for them.
create table usage_changes (
	tenant_id uuid,
	id uuid not null, -- by default uuid_v7()
	spool_id uuid not null,
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id)
);
call tenant_table('usage_changes', 'select, insert, delete');

-- The grams of a filament that should be in stock, and since when there are too few.
create table stock_levels (
	tenant_id uuid,
	id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	color text collate "C" check (length(color) <= 200), -- null: any
	brand text collate "C" check (length(brand) <= 200), -- null: any
	minimum_grams numeric(15,6) not null check (minimum_grams > 0 and minimum_grams <= 999999999),
	low_since timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	color_key text collate "C" generated always as (lower(color collate "und-x-icu") collate "C") stored,
	brand_key text collate "C" generated always as (lower(brand collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('stock_levels', 'select, insert, update, delete');

create unique index stock_levels_filament
	on stock_levels (tenant_id, material_type, coalesce(color_key, ''), coalesce(brand_key, ''));

-- The definitions of custom fields, whose values the column extra of spools, filaments and vendors has.
create table custom_fields (
	tenant_id uuid,
	id uuid not null,
	entity text collate "C" not null check (entity in ('spool', 'filament', 'vendor')),
	key text collate "C" not null check (key ~ '^[a-z0-9_]{1,64}$'),
	name text collate "C" not null check (length(name) between 1 and 200),
	type text collate "C" not null check (type in ('text', 'integer', 'integer_range', 'float', 'float_range',
		'datetime', 'boolean', 'choice')),
	position int not null default 0,
	unit text collate "C" check (length(unit) <= 200),
	default_value text check (length(default_value) <= 10000), -- JSON
	choices text[] collate "C" not null default '{}'
		check (cardinality(choices) <= 100 and length(array_to_string(choices, '')) <= 20000),
	multiple boolean not null default false,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, id)
);
call tenant_table('custom_fields', 'select, insert, update, delete');

create unique index custom_fields_key on custom_fields (tenant_id, entity, key);
create index custom_fields_newest on custom_fields (tenant_id, created_at, id) where created_at > '-infinity';

-- Settings that clients of the API of Spoolman store. Only these clients interpret the JSON.
create table printer_settings (
	tenant_id uuid,
	key text collate "C" not null check (length(key) between 1 and 64),
	value text not null check (length(value) <= 65535),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, key)
);
call tenant_table('printer_settings', 'select, insert, update, delete');
