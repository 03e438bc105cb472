-- The indexes of lists have a predicate that PostgreSQL does not conclude from "hidden_at is null", so that only
-- statements with the same condition, those of lists, use them. A statement that selects a row by its id uses the
-- primary key. With the former predicate it could use any of the indexes: on an empty table all of them cost the same,
-- and PostgreSQL kept such a plan, which reads all rows of the tenant, until it analyzed the table.
drop index spools_newest, spools_material, spools_brand, spools_color, spools_in_stock;
create index spools_newest on spools (tenant_id, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index spools_material on spools (tenant_id, material_type, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index spools_brand on spools (tenant_id, brand_key, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index spools_color on spools (tenant_id, color_key, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index spools_in_stock on spools (tenant_id, in_stock, created_at, id) where num_nonnulls(hidden_at) <> 1;

drop index products_newest, products_category;
create index products_newest on products (tenant_id, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index products_category on products (tenant_id, category_key, created_at, id)
	where num_nonnulls(hidden_at) <> 1;

drop index production_runs_newest, production_runs_status, production_runs_printer;
create index production_runs_newest on production_runs (tenant_id, created_at, id) where num_nonnulls(hidden_at) <> 1;
create index production_runs_status on production_runs (tenant_id, status, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
create index production_runs_printer on production_runs (tenant_id, printer_key, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
