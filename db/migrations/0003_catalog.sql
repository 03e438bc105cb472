-- Products, their materials and components, and what they cost.

-- Returns the name of a file without what printers and upload tools change: folders, a time at its start, endings, the
-- number of a plate, and blanks.
create function file_key(name text) returns text language sql immutable parallel safe as $$
	select trim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
		normalize(lower(name collate "und-x-icu") collate "C", NFC), '^(.*[/\\])?([0-9]{7,}_)?', ''),
		'(\.gcode)?\.(3mf|gcode|bgcode|gco|gc|g)$', ''), '[ _]+\(?plate[ _]*[0-9]+\)?$', ''), '[ _]+', ' ', 'g'))
$$;

-- Only the function recompute_costs changes the costs, costs_complete and levels. These columns and updated_at are in no
-- index: with one on updated_at, the costs of 500 products took 640 ms in place of 46.
create table products (
	tenant_id uuid,
	id uuid not null,
	-- 1, 2, 3, ... within the tenant; by default next_number('products'). Without "not null", for the same reason as
	-- spools.number.
	number int check (number > 0),
	-- A plate of a product that is printed on several plates: a product of its own, and a component of that product. Its
	-- product and its number never change to null.
	plate_of uuid, -- no foreign key, so that a dump of the data can be restored in the order of the tables
	plate int check (plate >= 1 and plate <= 1000000),
	plate_quantity int, -- how many pieces of a removed plate its product needed, for its restoration
	-- A variant: a product that follows another one, or a plate that follows a plate of that one. See
	-- catalog/variants.sql. It never changes.
	variant_of uuid, -- no foreign key, for the same reason
	variant_name text collate "C" check (length(variant_name) <= 200), -- its own name; null: from the product's name
	variant_price numeric(15,6) check (variant_price >= 0 and variant_price <= 1000000), -- its own; null: the product's
	name text collate "C" not null check (length(name) <= 200),
	description text collate "C" check (length(description) <= 10000),
	sku text collate "C" check (length(sku) <= 200),
	category text collate "C" check (length(category) <= 200),
	estimated_print_time_minutes int check (estimated_print_time_minutes >= 0
		and estimated_print_time_minutes <= 1000000),
	labour_minutes numeric(15,6) check (labour_minutes >= 0 and labour_minutes <= 1000000),
	pieces_per_plate int check (pieces_per_plate >= 1 and pieces_per_plate <= 1000000),
	minimum_pieces int check (minimum_pieces between 1 and 1000000), -- that should be available
	location text collate "C" check (length(location) <= 200), -- of the pieces in stock
	selling_price numeric(15,6) check (selling_price >= 0 and selling_price <= 1000000),
	notes text collate "C" check (length(notes) <= 10000),
	-- The sliced file that the product was made from.
	file_name text collate "C" check (length(file_name) <= 200),
	file_sha256 text collate "C" check (length(file_sha256) <= 64),
	sliced_by text collate "C" check (length(sliced_by) <= 200),
	printer_model text collate "C" check (length(printer_model) <= 200),
	nozzle_mm numeric(15,6) check (nozzle_mm >= 0 and nozzle_mm <= 10),
	layer_height_mm numeric(15,6) check (layer_height_mm >= 0 and layer_height_mm <= 10),
	picture_version text collate "C" check (length(picture_version) <= 16), -- of product_pictures; null: no picture
	material_cost numeric(15,6) not null default 0 check (material_cost >= 0),
	component_cost numeric(15,6) not null default 0 check (component_cost >= 0),
	total_cost numeric(15,6) not null generated always as (material_cost + component_cost) stored
		constraint products_cost_range check (total_cost <= 999999999),
	costs_complete boolean not null default true, -- whether all required materials, also of components, have a price
	levels int not null default 0 check (levels >= 0), -- of components below the product
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	category_key text collate "C" generated always as (lower(category collate "und-x-icu") collate "C") stored,
	sku_key text collate "C" generated always as (lower(sku collate "und-x-icu") collate "C") stored,
	location_key text collate "C" generated always as (lower(location collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		name || E'\n' || coalesce(sku, '') || E'\n' || coalesce(category, '') || E'\n' ||
		coalesce(description, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	constraint products_variant check (variant_of <> id),
	-- The name of the file as printers have it: see file_key.
	file_key text collate "C" generated always as (file_key(file_name)) stored,
	constraint products_plate check ((plate_of is null) = (plate is null) and plate_of <> id),
	primary key (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('products', 'select, insert, update');

create unique index products_number on products (tenant_id, number) where number is not null;
create index products_newest on products (tenant_id, created_at, id) where hidden_at is null;
-- Lists have no plates, unless a request asks for them.
create index products_listed on products (tenant_id, created_at, id) where hidden_at is null and plate_of is null;
create index products_plates on products (tenant_id, plate_of, plate, id) where plate_of is not null;
create index products_variants on products (tenant_id, variant_of, plate_of) where variant_of is not null;
-- Lists of pages have variants below their products.
create index products_bases on products (tenant_id, created_at, id)
	where hidden_at is null and plate_of is null and variant_of is null;
create index products_location on products (tenant_id, location_key, created_at, id)
	where hidden_at is null and location_key is not null;
create index products_minimum on products (tenant_id, id) where minimum_pieces is not null and hidden_at is null;
create index products_category on products (tenant_id, category_key, created_at, id)
	where hidden_at is null and category_key is not null;
create index products_file_name on products (tenant_id, file_name, created_at, id)
	where hidden_at is null and file_name is not null;
create index products_file on products (tenant_id, file_sha256, created_at, id)
	where hidden_at is null and file_sha256 is not null;
create index products_file_key on products (tenant_id, file_key, created_at, id)
	where hidden_at is null and file_key is not null;
create index products_hidden on products (tenant_id, created_at, id) where hidden_at is not null;
create index products_sku_key on products (tenant_id, sku_key, created_at, id)
	where hidden_at is null and sku_key is not null;
create unique index products_sku on products (tenant_id, sku) where hidden_at is null and sku <> '';

-- The pictures of products. They are large, and therefore not in the rows of products.
create table product_pictures (
	tenant_id uuid,
	product_id uuid not null,
	media text collate "C" not null check (media in ('image/png', 'image/jpeg')),
	picture bytea not null check (length(picture) <= 2000000),
	small bytea not null check (length(small) <= 100000),
	primary key (tenant_id, product_id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
);
call tenant_table('product_pictures', 'select, insert, update, delete');
-- The bytes are compressed already.
alter table product_pictures alter picture set storage external, alter small set storage external;

create table product_materials (
	tenant_id uuid,
	id uuid not null,
	product_id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	material_name text collate "C" check (length(material_name) <= 200), -- null: the name of the type
	color text collate "C" not null check (length(color) <= 200),
	diameter_mm numeric(15,6) check (diameter_mm in (1.75, 2.85)), -- null: see usual_diameter
	-- The only filament that the product can use. The four columns above follow it; see product_material_follows.
	filament_id uuid,
	follows uuid, -- of a variant: the material of its product
	entry int, -- of a variant: the n of the entry of variant_materials that replaced it, or null
	weight_grams numeric(15,6) not null check (weight_grams > 0 and weight_grams <= 1000000),
	is_required boolean not null default true,
	notes text collate "C" check (length(notes) <= 2000),
	cost numeric(15,6) constraint product_materials_cost_range check (cost >= 0 and cost <= 999999999),
	cost_basis text collate "C" check (cost_basis in ('filament', 'color', 'material')), -- null: no price
	created_at timestamptz not null default clock_timestamp(),
	color_key text collate "C" not null generated always as (lower(color collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	foreign key (tenant_id, filament_id) references filaments (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('product_materials', 'select, insert, update, delete');

create index product_materials_filament on product_materials (tenant_id, filament_id) where filament_id is not null;
create unique index product_materials_follows on product_materials (tenant_id, product_id, follows)
	where follows is not null;
create index product_materials_oldest on product_materials (tenant_id, product_id, created_at, id);

create table product_components (
	tenant_id uuid,
	id uuid not null,
	product_id uuid not null,
	component_product_id uuid not null check (component_product_id <> product_id),
	quantity int not null default 1 check (quantity >= 1 and quantity <= 1000000),
	notes text collate "C" check (length(notes) <= 2000),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	foreign key (tenant_id, component_product_id) references products (tenant_id, id)
);
call tenant_table('product_components', 'select, insert, update, delete');

create unique index product_components_once on product_components (tenant_id, product_id, component_product_id);
create index product_components_used on product_components (tenant_id, component_product_id, product_id);

-- What a variant has instead of materials of its product and of the product's plates.
create table variant_materials (
	tenant_id uuid,
	variant_id uuid not null,
	n int not null, -- their order
	-- The materials that it replaces: those of the type and of the color, or of any.
	replaces_material_type text collate "C" check (replaces_material_type in
		('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	replaces_color text collate "C" check (length(replaces_color) <= 200),
	color text collate "C" check (length(color) <= 200), -- null: of the filament
	filament_id uuid,
	replaces_key text collate "C" generated always as (lower(replaces_color collate "und-x-icu") collate "C") stored,
	constraint variant_materials_color check (color is null or filament_id is null),
	primary key (tenant_id, variant_id, n),
	foreign key (tenant_id, variant_id) references products (tenant_id, id),
	foreign key (tenant_id, filament_id) references filaments (tenant_id, id)
);
call tenant_table('variant_materials', 'select, insert, update, delete');
create index variant_materials_filament on variant_materials (tenant_id, filament_id) where filament_id is not null;
