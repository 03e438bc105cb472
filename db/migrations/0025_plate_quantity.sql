-- How many pieces of a removed plate its product needed; see keep_plate_quantity.
alter table products add column plate_quantity int;
