-- What files have said about orders, as shop_orders for messages.

create table file_orders (
	tenant_id uuid,
	source text collate "C" not null check (length(source) <= 200), -- '': the file has none
	reference text collate "C" not null check (length(reference) between 1 and 200),
	order_id uuid not null,
	said bytea not null check (length(said) <= 8000000), -- JSON
	primary key (tenant_id, source, reference),
	foreign key (tenant_id, order_id) references orders (tenant_id, id)
);
call tenant_table('file_orders', 'select, insert, update');

create index file_orders_order on file_orders (tenant_id, order_id);
