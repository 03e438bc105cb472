-- Lines of orders as shops have them, and the products that people have assigned to such lines.

-- The number of lines that have no product yet.
alter table orders add column unassigned_count int not null default 0 check (unassigned_count >= 0);
create index orders_unassigned on orders (tenant_id, created_at, id) where hidden_at is null and unassigned_count > 0;

-- A line of an order. An item of the order prints it, or it has no product yet, or it is ignored. match_key names what
-- the line sells: its SKU, or its title if it has no SKU, without regard to case.
create table order_lines (
	tenant_id uuid,
	id uuid not null,
	order_id uuid not null,
	shop_line text collate "C" check (length(shop_line) <= 200), -- the id of the line in the shop
	title text collate "C" not null check (length(title) <= 1000),
	sku text collate "C" check (length(sku) <= 200),
	quantity int not null check (quantity >= 0 and quantity <= 1000000), -- 0: the shop has removed the line
	unit_price numeric(15,6) check (unit_price >= 0 and unit_price <= 1000000),
	item_id uuid,
	pieces int check (pieces > 0 and pieces <= 1000), -- of the product, for one unit of the line; null without an item
	ignored boolean not null default false, -- whether the farm does not print the line
	created_at timestamptz not null default clock_timestamp(),
	match_key text collate "C" not null generated always as (case when sku <> ''
		then 'sku ' || (lower(sku collate "und-x-icu") collate "C")
		else 'title ' || (lower(title collate "und-x-icu") collate "C") end) stored,
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

-- What a person has said about a line, for the next line with the same match_key.
create table order_assignments (
	tenant_id uuid,
	id uuid not null,
	title text collate "C" not null check (length(title) <= 1000),
	sku text collate "C" check (length(sku) <= 200),
	product_id uuid, -- null: the farm does not print such lines
	pieces int check (pieces > 0 and pieces <= 1000),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	match_key text collate "C" not null generated always as (case when sku <> ''
		then 'sku ' || (lower(sku collate "und-x-icu") collate "C")
		else 'title ' || (lower(title collate "und-x-icu") collate "C") end) stored,
	check ((product_id is null) = (pieces is null)),
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
);
call tenant_table('order_assignments', 'select, insert, update, delete');

create unique index order_assignments_key on order_assignments (tenant_id, match_key);
create index order_assignments_newest on order_assignments (tenant_id, created_at, id);
