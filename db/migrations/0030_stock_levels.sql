-- The grams of a filament that should be in stock, and since when there are too few.
create table stock_levels (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	color text collate "C" check (length(color) <= 200), -- null: any
	brand text collate "C" check (length(brand) <= 200), -- null: any
	minimum_grams numeric(15,6) not null check (minimum_grams > 0 and minimum_grams <= 999999999),
	low_since timestamptz,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	color_key text collate "C" generated always as (lower(color collate "und-x-icu") collate "C") stored,
	brand_key text collate "C" generated always as (lower(brand collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);
create unique index stock_levels_filament
	on stock_levels (tenant_id, material_type, coalesce(color_key, ''), coalesce(brand_key, ''));

alter table stock_levels enable row level security, force row level security;
create policy tenant on stock_levels
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update, delete on stock_levels to spoolwright_app;

-- The levels are refreshed when a transaction commits that changed what is in stock or what is reserved. Deferred
-- triggers notice every such change, whichever operation makes it, and the levels are the last rows that the transaction
-- locks. The definition inventory/levels has the function that they call; this one is for the time until it is
-- installed. (A migration that changes rows of these tables and then alters the tables must say "set constraints all
-- immediate" in between.)
create function stock_changed() returns trigger language plpgsql as $$
begin
	return null;
end $$;

create constraint trigger stock_added after insert or delete on spools
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed
	after update of remaining_weight_grams, hidden_at, archived, material_type, color, brand on spools
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed after update of status, hidden_at or delete on production_runs
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed
	after insert or delete or update of product_id, quantity, successful_quantity, failed_quantity, order_item_id on run_items
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed
	after insert or delete or update of spool_id, estimated_weight_grams, sent_actual_grams, spool_weight_before_grams,
		spool_weight_after_grams on run_materials
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed after update of status, hidden_at on orders
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed after insert or delete or update of product_id, quantity on order_items
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed
	after insert or delete or update of material_type, color, weight_grams, is_required on product_materials
	deferrable initially deferred for each row execute function stock_changed();
create constraint trigger stock_changed
	after insert or delete or update of component_product_id, quantity on product_components
	deferrable initially deferred for each row execute function stock_changed();
