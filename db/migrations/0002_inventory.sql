-- Vendors, filaments, spools, their usage ledger and its daily summaries, and stock levels.
-- The indexes of lists omit hidden rows, because lists omit them by default.

create table vendors (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('vendors')
	name text collate "C" not null check (length(name) <= 200), -- only clients of the Spoolman API can set ''
	notes text collate "C" check (length(notes) <= 10000),
	empty_spool_weight_grams numeric(15,6) check (empty_spool_weight_grams between 0 and 1000000),
	external_id text collate "C" check (length(external_id) <= 200),
	extra jsonb not null default '{}' check (length(extra::text) <= 100000), -- values of custom fields
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	name_key text collate "C" generated always as (lower(name collate "und-x-icu") collate "C") stored,
	external_id_key text collate "C" generated always as (lower(external_id collate "und-x-icu") collate "C") stored,
	-- See server.Searchable. A word of a search contains no line break, so that it does not match across two fields.
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		name || E'\n' || coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
);
call tenant_table('vendors', 'select, insert, update, delete');

create unique index vendors_number on vendors (tenant_id, number);
create unique index vendors_name on vendors (tenant_id, name_key)
	where hidden_at is null and name_key is not null;
create index vendors_newest on vendors (tenant_id, created_at, id) where hidden_at is null;
create index vendors_external_id on vendors (tenant_id, external_id_key, created_at, id)
	where hidden_at is null and external_id_key is not null;
create index vendors_hidden on vendors (tenant_id, created_at, id) where hidden_at is not null;
-- For the list of those that changed since a moment, here and below, and for WebSockets.
create index vendors_updated on vendors (tenant_id, updated_at, id);

create table filaments (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('filaments')
	vendor_id uuid,
	vendor_name text collate "C" check (length(vendor_name) <= 200), -- the name of the vendor
	-- Clients of the Spoolman API can create filaments without a name or a material; the column is then ''. If it is
	-- null, these clients see the color instead of the name, or the material type instead of the material.
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
	url text collate "C" check (length(url) <= 2000 and url ~ '^https?://'), -- of the article in a shop
	external_id text collate "C" check (length(external_id) <= 200),
	notes text collate "C" check (length(notes) <= 10000),
	extra jsonb not null default '{}' check (length(extra::text) <= 100000),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
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

create unique index filaments_number on filaments (tenant_id, number);
create index filaments_newest on filaments (tenant_id, created_at, id) where hidden_at is null;
create index filaments_vendor_id on filaments (tenant_id, vendor_id, created_at, id) where vendor_id is not null;
create index filaments_vendor on filaments (tenant_id, vendor_key, created_at, id)
	where hidden_at is null and vendor_key is not null;
create index filaments_material on filaments (tenant_id, material_type, created_at, id) where hidden_at is null;
create index filaments_color on filaments (tenant_id, color_key, created_at, id) where hidden_at is null;
create index filaments_article_number on filaments (tenant_id, article_number_key, created_at, id)
	where hidden_at is null and article_number_key is not null;
create index filaments_external_id on filaments (tenant_id, external_id_key, created_at, id)
	where hidden_at is null and external_id_key is not null;
create index filaments_hidden on filaments (tenant_id, created_at, id) where hidden_at is not null;
create index filaments_updated on filaments (tenant_id, updated_at, id);

-- Filaments that can be bought. They come from a file of SpoolmanDB.
create table filament_catalog (
	tenant_id uuid,
	id uuid not null,
	external_id text collate "C" not null check (length(external_id) between 1 and 200), -- the id in SpoolmanDB
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
create index filament_catalog_newest on filament_catalog (tenant_id, created_at, id);
create index filament_catalog_vendor on filament_catalog (tenant_id, vendor_key, created_at, id)
	where vendor_key is not null;
create index filament_catalog_material on filament_catalog (tenant_id, material_type, created_at, id);

-- The columns that a deduction changes (remaining_weight_grams, updated_at) are in no index, so that the new row
-- version stays on its page (HOT). For each statement that changes a table, PostgreSQL parses the checks and the
-- expressions of generated columns again, which would take a third of the time of a deduction. Therefore, triggers of
-- the definition inventory/rows check the columns and set the computed ones: spool_weighed those of the remaining weight,
-- and spool_computed the others, when one of them changes.
create table spools (
	tenant_id uuid,
	id uuid not null,
	-- 1, 2, 3, ... within the tenant, never used again; by default next_number('spools'). valid_spool checks that the
	-- number is not null. The column is not declared "not null", because PostgreSQL 17 and later would then remove
	-- "number is not null" from statements, and would not use the index spools_number.
	number int,
	filament_id uuid, -- the spool has the material, vendor, color, diameter and density of the filament
	material_type text collate "C" not null,
	material_name text collate "C",
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
	cost_per_gram numeric(15,6),
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
	edited_at timestamptz, -- when the spool was last edited, hidden or restored
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	in_stock boolean not null, -- whether remaining_weight_grams is more than 0
	brand_key text collate "C",
	color_key text collate "C" not null,
	material_key text collate "C" not null, -- see the function material_key
	supplier_key text collate "C",
	location_key text collate "C",
	lot_key text collate "C",
	search_key text collate "C" not null,
	-- Equal spools without a filament show the same computed filament. This is its id, so that a list can read computed
	-- filaments in the order of their ids. It is null for a spool with a filament.
	computed_filament int,
	primary key (tenant_id, id),
	foreign key (tenant_id, filament_id) references filaments (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('spools', 'select, insert, update');
comment on column spools.cost_per_gram is 'computed';
comment on column spools.in_stock is 'computed';
comment on column spools.brand_key is 'computed';
comment on column spools.color_key is 'computed';
comment on column spools.material_key is 'computed';
comment on column spools.supplier_key is 'computed';
comment on column spools.location_key is 'computed';
comment on column spools.lot_key is 'computed';
comment on column spools.search_key is 'computed';
comment on column spools.computed_filament is 'computed';

create unique index spools_number on spools (tenant_id, number) where number is not null;
create index spools_newest on spools (tenant_id, archived, created_at, id) where hidden_at is null;
create index spools_material on spools (tenant_id, material_type, archived, created_at, id) where hidden_at is null;
create index spools_brand on spools (tenant_id, brand_key, archived, created_at, id)
	where hidden_at is null and brand_key is not null;
create index spools_color on spools (tenant_id, color_key, archived, created_at, id) where hidden_at is null;
create index spools_in_stock on spools (tenant_id, in_stock, archived, created_at, id) where hidden_at is null;
create index spools_supplier on spools (tenant_id, supplier_key, archived, created_at, id)
	where hidden_at is null and supplier_key is not null;
create index spools_location on spools (tenant_id, location_key, archived, created_at, id)
	where hidden_at is null and location_key is not null;
create index spools_lot on spools (tenant_id, lot_key, archived, created_at, id)
	where lot_key is not null; -- also of removed spools, for a recall
create index spools_filament on spools (tenant_id, filament_id, archived, created_at, id)
	where hidden_at is null and filament_id is not null;
create index spools_computed_filament on spools (tenant_id, computed_filament, number)
	where hidden_at is null and computed_filament is not null;
-- For the quantities and the changes of filaments, which concern all spools, also hidden ones.
create index spools_filament_stock on spools (tenant_id, filament_id, in_stock) where filament_id is not null;
create index spools_hidden on spools (tenant_id, created_at, id) where hidden_at is not null;
-- For the price of filament.
create index spools_price on spools (tenant_id, material_key, color_key)
	where hidden_at is null and cost_per_gram is not null;
-- Finds the spools that changed lately, together with the index spool_usage_printed. An index on the columns that a
-- deduction changes would slow deductions down. The queries combine the spools with new ledger entries, whose ids
-- contain their time; the spools with reports that extend an entry of the last hour; and the spools with a new
-- edited_at.
create index spools_edited on spools (tenant_id, edited_at) where edited_at is not null;

-- The printers of the farm. A printer without materials can print all materials.
create table printers (
	tenant_id uuid,
	id uuid not null,
	number int not null check (number > 0), -- by default next_number('printers')
	name text collate "C" not null check (name <> '' and length(name) <= 200),
	model text collate "C" check (length(model) <= 200),
	location text collate "C" check (length(location) <= 200),
	notes text collate "C" check (length(notes) <= 10000),
	nozzle_mm numeric(15,6) check (nozzle_mm > 0 and nozzle_mm <= 10),
	diameter_mm numeric(15,6) not null default 1.75 check (diameter_mm in (1.75, 2.85)), -- of the filament it prints
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
	updated_at timestamptz not null default now(), -- changes with the printer and with its slots
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	name_key text collate "C" generated always as (lower(name collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		name || E'\n' || coalesce(model, '') || E'\n' || coalesce(location, '') || E'\n' ||
		coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
);
call tenant_table('printers', 'select, insert, update, delete');

create unique index printers_number on printers (tenant_id, number);
create unique index printers_name on printers (tenant_id, name_key)
	where hidden_at is null and name_key is not null;
create index printers_newest on printers (tenant_id, created_at, id) where hidden_at is null;
create index printers_status on printers (tenant_id, status, created_at, id) where hidden_at is null;
-- For usual_diameter, the diameter of the filament that a farm uses.
create index printers_diameter on printers (tenant_id, diameter_mm)
	where hidden_at is null and status <> 'retired';
create index printers_hidden on printers (tenant_id, created_at, id) where hidden_at is not null;
create index printers_updated on printers (tenant_id, updated_at, id);

alter table api_keys add foreign key (tenant_id, printer_id) references printers (tenant_id, id);
create index api_keys_printer on api_keys (tenant_id, printer_id) where printer_id is not null;

-- Where a printer is watched, and with which secret.
create table printer_connections (
	tenant_id uuid,
	id uuid not null, -- of the printer
	kind text collate "C" not null check (kind in ('moonraker', 'octoprint', 'prusalink', 'bambu')),
	address text not null check (address <> '' and length(address) <= 300),
	secret bytea check (length(secret) <= 1000), -- encrypted
	serial text collate "C" check (length(serial) <= 50),
	fingerprint text collate "C" check (length(fingerprint) <= 64), -- SHA-256 of the certificate of a bambu
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id, id) references printers (tenant_id, id) on delete cascade
);
call tenant_table('printer_connections', 'select, insert, update, delete');

-- The loaded spools. A slot of a printer holds at most one spool, and a spool is in at most one slot.
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

-- The RFID tags that printers have read: which spool has the tag, and in which slot it is.
create table spool_tags (
	tenant_id uuid,
	tag text collate "C" not null check (tag <> '' and length(tag) <= 100),
	spool_id uuid, -- null until somebody loads a spool into the slot
	printer_id uuid, -- null if no printer says that the tag is in a slot
	slot int check (slot between 1 and 64),
	primary key (tenant_id, tag),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id) on delete cascade,
	foreign key (tenant_id, printer_id) references printers (tenant_id, id) on delete set null (printer_id),
	check (printer_id is null or slot is not null)
);
call tenant_table('spool_tags', 'select, insert, update, delete');

create index spool_tags_spool on spool_tags (tenant_id, spool_id);
create unique index spool_tags_slot on spool_tags (tenant_id, printer_id, slot) where printer_id is not null;

-- The items that imports from Spoolman created. The next import applies only what has changed in Spoolman since.
create table spoolman_items (
	tenant_id uuid,
	entity text collate "C" not null check (entity in ('vendor', 'filament', 'spool')),
	key text collate "C" not null check (length(key) <= 500), -- the id and the time of registration in Spoolman
	item uuid not null, -- the id of the vendor, filament or spool, which may be deleted
	source text collate "C" not null check (length(source) <= 100000), -- the columns at the last import, as JSON
	primary key (tenant_id, entity, key)
);
call tenant_table('spoolman_items', 'select, insert, update, delete');

-- The imports of lists that changed something, and what they created and changed.
create table imports (
	tenant_id uuid,
	id uuid not null,
	resources text collate "C" not null check (resources in ('vendors', 'filaments', 'spools', 'products', 'orders')),
	created int not null check (created >= 0), -- rows of the file, as updated
	updated int not null check (updated >= 0),
	created_at timestamptz not null default now(),
	-- The user or API key; null if the command line imported.
	created_by uuid default coalesce(nullif(current_setting('app.user_id', true), ''),
		nullif(current_setting('app.api_key_id', true), ''))::uuid,
	undone_at timestamptz,
	primary key (tenant_id, id)
);
call tenant_table('imports', 'select, insert, update');

create index imports_newest on imports (tenant_id, created_at, id);

-- Undo deletes the rows of what it removes; a change is also deleted after 30 days.
create table import_rows (
	tenant_id uuid,
	import_id uuid not null,
	resources text collate "C" not null check (resources in ('vendors', 'filaments', 'spools', 'products', 'orders')),
	item uuid not null, -- the id of the resource, which may be deleted
	-- A hash of the row that created the item, as it was read; equal rows of a file have different ones. It is null for
	-- an item that is no row, such as a vendor of a filament.
	digest bigint,
	before text collate "C" check (length(before) <= 1000000), -- JSON: the changed columns of an item before the import
	after text collate "C" check (length(after) <= 1000000), -- and after it; both are null for what was created
	primary key (tenant_id, import_id, item),
	foreign key (tenant_id, import_id) references imports (tenant_id, id),
	check ((before is null) = (after is null) and num_nonnulls(before, digest) <= 1)
);
call tenant_table('import_rows', 'select, insert, delete');

create index import_rows_digest on import_rows (tenant_id, digest, resources, import_id) where digest is not null;
create index import_rows_changes on import_rows (tenant_id, import_id) where before is not null;

-- The ledger: an entry for each change of a spool's remaining weight. Successive reports of a printer form one entry,
-- which grows; all other entries never change. valid_usage says which entries are valid, change_grams what one changed.
create table spool_usage (
	tenant_id uuid,
	id uuid not null, -- by default uuid_v7()
	spool_id uuid not null,
	kind text collate "C" not null,
	reason text collate "C",
	run_id uuid, -- the run that used the filament
	printer_id uuid, -- the printer of the run, or else of the API key or of the slot of the spool
	user_id uuid default nullif(current_setting('app.user_id', true), '')::uuid,
	api_key_id uuid default nullif(current_setting('app.api_key_id', true), '')::uuid,
	before_grams numeric(15,6) not null,
	after_grams numeric(15,6) not null,
	shortfall_grams numeric(15,6), -- used beyond the weight of the spool; negative if a run ended with less
	covered_grams numeric(15,6), -- reported after the run had ended and a person had stated its use
	report_token bigint, -- identifies the last report in the entry; null if the report had an idempotency key
	created_at timestamptz not null default clock_timestamp(),
	updated_at timestamptz, -- when the entry last grew
	-- The time to which reports date the entry, if it is not created_at: the end of the run, which date_run_usage
	-- sets, or the time of the entry that this entry reverses or moves.
	used_at timestamptz,
	counted_run_id uuid, -- a run other than run_id that counts the grams, or has stopped counting them
	-- These columns have no foreign keys: no entry is ever deleted, and pg_dump warns of keys of a table to itself.
	reverses_id uuid, -- the entry that this entry takes back
	moves_id uuid, -- the entry of another spool whose use this entry records
	reporter_id uuid, -- the API key that reported the use which this entry reverses or moves
	-- A change of an earlier moment than a weighing leaves the weight as the scale has found it: a second entry takes
	-- back its grams at the weighing. Its time is that of the weighing.
	weighing_id uuid, -- the weighing, an entry of the kind measured or edited
	balances_id uuid, -- the entry that this one takes back at the weighing
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id)
);
call tenant_table('spool_usage', 'select, insert');
grant update (after_grams, shortfall_grams, covered_grams, report_token, updated_at, used_at) on spool_usage
	to spoolwright_app;
-- The trigger usage_grows allows changes of weights only in entries of printers. In entries of runs, used_at can
-- change.
create policy printed on spool_usage as restrictive for update
	using (kind = 'printed' or run_id is not null) with check (kind = 'printed' or run_id is not null);

create index spool_usage_newest on spool_usage (tenant_id, spool_id, created_at, id);
-- For reports and the export. The time of an entry can differ from the time in its id.
create index spool_usage_times on spool_usage (tenant_id, coalesce(used_at, created_at), id);
create index spool_usage_printer on spool_usage (tenant_id, printer_id, created_at, id) where printer_id is not null;
-- For the filament that a run has used.
create index spool_usage_run on spool_usage (tenant_id, run_id, spool_id) where run_id is not null;
create index spool_usage_printed on spool_usage (tenant_id, id) where kind = 'printed';
-- An entry is reversed at most once, and moved at most once.
create unique index spool_usage_reversed on spool_usage (tenant_id, reverses_id) where reverses_id is not null;
create unique index spool_usage_moved on spool_usage (tenant_id, moves_id) where moves_id is not null;
-- For use outside of runs that is dated to another time than the creation of its entry.
create index spool_usage_corrected on spool_usage (tenant_id, spool_id, used_at)
	where run_id is null and used_at is not null;

create index spool_usage_balanced on spool_usage (tenant_id, spool_id, weighing_id) where weighing_id is not null;

-- What spools contained before a refill, which begins new contents. What a spool contains now is in spools. An entry of
-- the ledger is of the contents that were closed first after its time.
create table spool_contents (
	tenant_id uuid,
	spool_id uuid not null,
	closed_at timestamptz not null, -- the time of the refill
	net_weight_grams numeric(15,6) not null check (net_weight_grams <= 1000000),
	purchase_price numeric(15,6) check (purchase_price <= 1000000),
	cost_per_gram numeric(15,6) check (cost_per_gram <= 999999999),
	purchase_date date,
	supplier text collate "C" check (length(supplier) <= 200),
	lot_number text collate "C" check (length(lot_number) <= 200),
	lot_key text collate "C" check (length(lot_key) <= 1000), -- as in spools
	primary key (tenant_id, spool_id, closed_at),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id)
);
call tenant_table('spool_contents', 'select, insert');

create index spool_contents_closed on spool_contents (tenant_id, closed_at);
create index spool_contents_lot on spool_contents (tenant_id, lot_key) where lot_key is not null;

-- Reasons to summarize days again: either a spool whose material, color or price changed, for all days with its use;
-- or a time, because an entry of the ledger was dated to the day of this time or away from it. Each change inserts a
-- row, so that changes do not wait for the summary, and the summary does not wait for them.
create table usage_changes (
	tenant_id uuid,
	id uuid not null, -- by default uuid_v7()
	spool_id uuid,
	used_at timestamptz,
	primary key (tenant_id, id),
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	check (num_nonnulls(spool_id, used_at) <= 1)
);
call tenant_table('usage_changes', 'select, insert, delete');

-- The grams of a filament that should be in stock, and since when the stock has been lower.
create table stock_levels (
	tenant_id uuid,
	id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	material_name text collate "C" check (length(material_name) <= 200), -- null: the name of the type
	color text collate "C" check (length(color) <= 200), -- null: any
	brand text collate "C" check (length(brand) <= 200), -- null: any
	diameter_mm numeric(15,6) check (diameter_mm in (1.75, 2.85)), -- null: see usual_diameter
	minimum_grams numeric(15,6) not null check (minimum_grams > 0 and minimum_grams <= 999999999),
	-- What is ordered and on its way, and when it is expected. It is not in stock: the level ignores it.
	incoming_grams numeric(15,6) check (incoming_grams > 0 and incoming_grams <= 999999999),
	incoming_date date,
	low_since timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	color_key text collate "C" generated always as (lower(color collate "und-x-icu") collate "C") stored,
	brand_key text collate "C" generated always as (lower(brand collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('stock_levels', 'select, insert, update, delete');

-- The unique index stock_levels_filament is in the definition stock/stock, because it calls material_key.

-- The definitions of custom fields. The column extra of spools, filaments and vendors has their values.
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
create index custom_fields_newest on custom_fields (tenant_id, created_at, id);

-- Settings that clients of the API of Spoolman store. Only these clients interpret the JSON.
create table printer_settings (
	tenant_id uuid,
	key text collate "C" not null check (length(key) between 1 and 64),
	value text not null check (length(value) <= 65535),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, key)
);
call tenant_table('printer_settings', 'select, insert, update, delete');
