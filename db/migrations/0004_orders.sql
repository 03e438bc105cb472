-- Orders and their items.

create table orders (
	tenant_id uuid,
	id uuid not null,
	source text collate "C" check (length(source) <= 200),
	reference text collate "C" check (length(reference) <= 200),
	customer text collate "C" check (length(customer) <= 200),
	due_date date,
	notes text collate "C" check (length(notes) <= 10000),
	status text collate "C" not null check (status in ('received', 'in_production', 'done', 'cancelled')),
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
		E'\n' || coalesce(notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('orders', 'select, insert, update');

create index orders_newest on orders (tenant_id, created_at, id) where hidden_at is null;
create index orders_status on orders (tenant_id, status, created_at, id) where hidden_at is null;
create index orders_source on orders (tenant_id, source_key, created_at, id)
	where hidden_at is null and source_key is not null;
create index orders_hidden on orders (tenant_id, created_at, id) where hidden_at is not null;
create index orders_reference_key on orders (tenant_id, reference_key, created_at, id)
	where hidden_at is null and reference_key is not null;
create index orders_customer on orders (tenant_id, customer_key, created_at, id)
	where hidden_at is null and customer_key is not null;
create index orders_due on orders (tenant_id, due_date, id) where hidden_at is null and due_date is not null;
create index orders_open on orders (tenant_id, due_date, id) where is_open;
create unique index orders_reference on orders (tenant_id, coalesce(source, ''), reference)
	where hidden_at is null and reference <> '';

create table order_items (
	tenant_id uuid,
	id uuid not null,
	order_id uuid not null,
	product_id uuid not null,
	quantity int not null check (quantity > 0 and quantity <= 1000000),
	unit_price numeric(15,6) check (unit_price >= 0 and unit_price <= 1000000),
	created_at timestamptz not null default clock_timestamp(),
	-- When the item was removed from the order. The costs of its runs still belong to the order.
	withdrawn_at timestamptz,
	-- The number of pieces that the customer got, and when, if a user marked the order as done.
	delivered int check (delivered >= 0 and delivered <= 1000000),
	delivered_at timestamptz,
	check ((delivered is null) = (delivered_at is null)),
	primary key (tenant_id, id),
	unique (tenant_id, id, product_id), -- for the foreign key of run_items
	foreign key (tenant_id, order_id) references orders (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
);
call tenant_table('order_items', 'select, insert, update, delete');

create index order_items_order on order_items (tenant_id, order_id, created_at, id);
create index order_items_delivered on order_items (tenant_id, delivered_at) where delivered_at is not null;
create index order_items_product on order_items (tenant_id, product_id, order_id);
