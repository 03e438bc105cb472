-- Short numbers of products for labels, and a list of the products at a place.

alter table products
	-- 1, 2, 3, ... within the tenant; by default next_number('products'), which also numbers older products. Without "not
	-- null", for the same reason as spools.number.
	add column number int check (number > 0),
	add column location_key text collate "C" generated always as (lower(location collate "und-x-icu") collate "C") stored;
create unique index products_number on products (tenant_id, number) where number is not null;
create index products_location on products (tenant_id, location_key, created_at, id)
	where hidden_at is null and location_key is not null;

-- pieces/pieces.sql creates it again, with parts_from_stock among its columns.
drop trigger if exists pieces_changed on run_items;
