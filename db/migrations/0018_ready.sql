create index orders_ready on orders (tenant_id, due_date, id) where ready_at is not null and is_open;
create index products_minimum on products (tenant_id, id) where minimum_pieces is not null and hidden_at is null;

-- The definition stock/stock creates the trigger again, for more columns.
drop trigger if exists stock_changed on order_items;

-- Whether the delivery of an order assembles the pieces that are not in stock, if their components are.
alter table tenants add column assemble_on_delivery boolean not null default true;
grant update (assemble_on_delivery) on tenants to spoolwright_app;
