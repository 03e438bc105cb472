-- A plate of a product that is printed on several plates: a product of its own, and a component of that product. Its
-- product and its number never change to null.
alter table products
	add column plate_of uuid, -- no foreign key, so that a dump of the data can be restored in the order of the tables
	add column plate int check (plate >= 1 and plate <= 1000000),
	add constraint products_plate check ((plate_of is null) = (plate is null) and plate_of <> id);

create index products_plates on products (tenant_id, plate_of, plate, id) where plate_of is not null;
-- Lists have no plates, unless a request asks for them.
create index products_listed on products (tenant_id, created_at, id) where hidden_at is null and plate_of is null;
