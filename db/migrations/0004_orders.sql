-- Orders, their items and lines, and the shops and files that orders come from.

create table orders (
	tenant_id uuid,
	id uuid not null,
	source text collate "C" check (length(source) <= 200),
	reference text collate "C" check (length(reference) <= 200),
	customer text collate "C" check (length(customer) <= 200),
	due_date date,
	notes text collate "C" check (length(notes) <= 10000),
	carrier text collate "C" check (length(carrier) between 1 and 100),
	tracking_number text collate "C" check (length(tracking_number) between 1 and 100),
	status text collate "C" not null check (status in ('received', 'in_production', 'done', 'cancelled')),
	-- The currency of the prices, or null for the currency of the farm. exchange_rate is the value of a unit in the
	-- currency of the farm; without it, the revenue of the order is unknown.
	currency text collate "C" check (currency ~ '^[A-Z]{3}$'),
	exchange_rate numeric(15,6) check (exchange_rate > 0 and exchange_rate <= 1000000),
	exchange_date date,
	-- For items without tax_amount: the tax of their prices, and whether it is part of them.
	sales_tax_percent numeric(15,6) not null default 0 check (sales_tax_percent >= 0 and sales_tax_percent <= 100),
	prices_include_tax boolean not null default false,
	unassigned_count int not null default 0 check (unassigned_count >= 0), -- of lines that have no product yet
	-- Since when all undelivered pieces of an open order are in stock; null while pieces are missing.
	ready_at timestamptz,
	content bytea not null check (length(content) = 32), -- SHA-256 of the request that created the order
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	-- Whether the order reserves filament, and its status follows its production runs.
	is_open boolean not null generated always as (status in ('received', 'in_production') and hidden_at is null) stored,
	source_key text collate "C" generated always as (lower(source collate "und-x-icu") collate "C") stored,
	reference_key text collate "C" generated always as (lower(reference collate "und-x-icu") collate "C") stored,
	customer_key text collate "C" generated always as (lower(customer collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		coalesce(reference, '') || E'\n' || coalesce(source, '') || E'\n' || coalesce(customer, '') ||
		E'\n' || coalesce(notes, '') || E'\n' || coalesce(carrier, '') || E'\n' || coalesce(tracking_number, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	constraint orders_exchange check ((exchange_rate is null) = (exchange_date is null)
		and (exchange_rate is null or currency is not null)),
	primary key (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('orders', 'select, insert, update');

create index orders_newest on orders (tenant_id, created_at, id) where hidden_at is null;
create index orders_status on orders (tenant_id, status, created_at, id) where hidden_at is null;
create index orders_source on orders (tenant_id, source_key, created_at, id)
	where hidden_at is null and source_key is not null;
create index orders_hidden on orders (tenant_id, created_at, id) where hidden_at is not null;
create index orders_updated on orders (tenant_id, updated_at, id);
create index orders_reference_key on orders (tenant_id, reference_key, created_at, id)
	where hidden_at is null and reference_key is not null;
create index orders_customer on orders (tenant_id, customer_key, created_at, id)
	where hidden_at is null and customer_key is not null;
create index orders_due on orders (tenant_id, due_date, id) where hidden_at is null and due_date is not null;
create index orders_open on orders (tenant_id, due_date, id) where is_open;
create index orders_unconverted on orders (tenant_id, currency) where currency is not null and exchange_rate is null;
create index orders_ready on orders (tenant_id, due_date, id) where ready_at is not null and is_open;
create index orders_unassigned on orders (tenant_id, created_at, id) where hidden_at is null and unassigned_count > 0;
create unique index orders_reference on orders (tenant_id, coalesce(source, ''), reference)
	where hidden_at is null and reference <> '';

create table order_items (
	tenant_id uuid,
	id uuid not null,
	order_id uuid not null,
	product_id uuid not null,
	quantity int not null check (quantity > 0 and quantity <= 1000000),
	unit_price numeric(15,6) check (unit_price >= 0 and unit_price <= 1000000),
	-- The price of line_pieces pieces, if the source gave that, and its tax. unit_price is then rounded.
	line_price numeric(15,6) check (line_price >= 0 and line_price <= 999999999),
	line_pieces bigint check (line_pieces > 0),
	tax_amount numeric(15,6) check (tax_amount >= 0 and tax_amount <= 999999999),
	constraint order_items_line check ((line_price is null) = (line_pieces is null)
		and (tax_amount is null or line_price is not null)),
	created_at timestamptz not null default clock_timestamp(),
	-- When the item was removed from the order. The costs of its runs still belong to the order.
	withdrawn_at timestamptz,
	-- The number of pieces that the customer got, and when, if a user marked the order as done.
	delivered int check (delivered >= 0 and delivered <= 1000000),
	delivered_at timestamptz,
	check ((delivered is null) = (delivered_at is null)),
	primary key (tenant_id, id),
	foreign key (tenant_id, order_id) references orders (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
);
call tenant_table('order_items', 'select, insert, update, delete');

create index order_items_order on order_items (tenant_id, order_id, created_at, id);
create index order_items_delivered on order_items (tenant_id, delivered_at) where delivered_at is not null;
create index order_items_product on order_items (tenant_id, product_id, order_id);

-- Returns the key by which a line is matched: its SKU or, without one, its title, ignoring case.
create function line_match_key(title text, sku text) returns text language sql immutable parallel safe as $$
	select case when sku <> '' then 'sku ' || (lower(sku collate "und-x-icu") collate "C")
		else 'title ' || (lower(title collate "und-x-icu") collate "C") end
$$;

-- Returns the key by which a line with a SKU is matched where the title has the option that the customer chose, or null.
create function line_title_key(title text, sku text) returns text language sql immutable parallel safe as $$
	select case when sku <> '' then 'both ' || md5(lower(title collate "und-x-icu") collate "C") || ' '
		|| (lower(sku collate "und-x-icu") collate "C") end
$$;

-- A line of an order: an item of the order prints it, it has no product yet, or it is ignored. match_key identifies
-- what the line sells: its SKU, or its title if it has no SKU, without regard to case.
create table order_lines (
	tenant_id uuid,
	id uuid not null,
	order_id uuid not null,
	shop_line text collate "C" check (length(shop_line) <= 200), -- the id of the line in the shop
	title text collate "C" not null check (length(title) <= 1000),
	sku text collate "C" check (length(sku) <= 200),
	quantity int not null check (quantity >= 0 and quantity <= 1000000), -- 0: the shop has removed the line
	-- of line_pieces units, with its tax; see order_items
	line_price numeric(15,6) check (line_price >= 0 and line_price <= 999999999),
	line_pieces bigint check (line_pieces > 0),
	tax_amount numeric(15,6) check (tax_amount >= 0 and tax_amount <= 999999999),
	check ((line_price is null) = (line_pieces is null) and (tax_amount is null or line_price is not null)),
	item_id uuid,
	pieces int check (pieces > 0 and pieces <= 1000), -- of the product, for one unit of the line; null without an item
	ignored boolean not null default false, -- whether the farm does not print the line
	replaced boolean not null default false, -- whether the shop changed its product after the delivery of pieces
	created_at timestamptz not null default clock_timestamp(),
	match_key text collate "C" not null generated always as (line_match_key(title, sku)) stored,
	check ((item_id is null) = (pieces is null)),
	primary key (tenant_id, id),
	foreign key (tenant_id, order_id) references orders (tenant_id, id),
	foreign key (tenant_id, item_id) references order_items (tenant_id, id)
);
call tenant_table('order_lines', 'select, insert, update');

create index order_lines_order on order_lines (tenant_id, order_id, created_at, id);
create index order_lines_item on order_lines (tenant_id, item_id) where item_id is not null;
create index order_lines_unassigned on order_lines (tenant_id, match_key, order_id)
	where item_id is null and not ignored and quantity > 0;

-- The product that a person assigned to a line, for further lines with the same match_key or, with_title, with the same
-- SKU and title.
create table order_assignments (
	tenant_id uuid,
	id uuid not null,
	title text collate "C" not null check (length(title) <= 1000),
	sku text collate "C" check (length(sku) <= 200),
	product_id uuid, -- null: the farm does not print such lines
	pieces int check (pieces > 0 and pieces <= 1000),
	with_title boolean not null default false,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	match_key text collate "C" not null generated always as (coalesce(case when with_title then
		line_title_key(title, sku) end, line_match_key(title, sku))) stored,
	check ((product_id is null) = (pieces is null)),
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
);
call tenant_table('order_assignments', 'select, insert, update, delete');

create unique index order_assignments_key on order_assignments (tenant_id, match_key);
create index order_assignments_newest on order_assignments (tenant_id, created_at, id);

-- Connections to shops.
create table shops (
	tenant_id uuid,
	id uuid not null,
	kind text collate "C" not null check (kind in ('shopify', 'woocommerce', 'generic')),
	name text collate "C" not null check (length(name) <= 200),
	secret bytea not null check (length(secret) <= 600), -- encrypted
	previous_secret bytea check (length(previous_secret) <= 600), -- encrypted; valid until previous_until
	previous_until timestamptz,
	received_at timestamptz, -- the last message, and the last one with a wrong signature, each exact to a minute
	refused_at timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(), -- unchanged by messages
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('shops', 'select, insert, update, delete');

create index shops_newest on shops (tenant_id, created_at, id);

-- An order of a shop. merged is its state by all messages, and applied the part that the farm's order has got. Both
-- are JSON.
create table shop_orders (
	tenant_id uuid,
	shop_id uuid not null,
	number text collate "C" not null check (length(number) between 1 and 100), -- the id of the order in the shop
	order_id uuid, -- null as long as there is nothing to print
	shop_updated_at timestamptz, -- of the newest message
	merged bytea not null default '{}' check (length(merged) <= 8000000),
	applied bytea check (length(applied) <= 8000000),
	primary key (tenant_id, shop_id, number),
	foreign key (tenant_id, shop_id) references shops (tenant_id, id),
	foreign key (tenant_id, order_id) references orders (tenant_id, id)
);
call tenant_table('shop_orders', 'select, insert, update, delete');

create index shop_orders_order on shop_orders (tenant_id, order_id) where order_id is not null;

-- Outside of tenancy, as key_directory: the tenant of each connection.
create table shop_directory (
	shop_id uuid primary key,
	tenant_id uuid not null
);

-- Orders from files: merged is the state of an order by all files, as JSON.
create table file_orders (
	tenant_id uuid,
	source text collate "C" not null check (length(source) <= 200), -- '': the file has none
	reference text collate "C" not null check (length(reference) between 1 and 200),
	order_id uuid not null,
	merged bytea not null check (length(merged) <= 8000000),
	primary key (tenant_id, source, reference),
	foreign key (tenant_id, order_id) references orders (tenant_id, id)
);
call tenant_table('file_orders', 'select, insert, update, delete');

create index file_orders_order on file_orders (tenant_id, order_id);
