-- Connections to shops, and what the shops have said about their orders.

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

-- An order of a shop. said is what all messages together say about it, and taken what the order here has of that.
create table shop_orders (
	tenant_id uuid,
	shop_id uuid not null,
	number text collate "C" not null check (length(number) between 1 and 100), -- the id of the order in the shop
	order_id uuid, -- null as long as there is nothing to print
	shop_updated_at timestamptz, -- of the newest message
	said bytea not null default '{}' check (length(said) <= 8000000), -- this and taken: JSON
	taken bytea check (length(taken) <= 8000000),
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
