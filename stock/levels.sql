-- Returns for each stock level of the tenant the grams and the number of its spools in stock, and what open orders and
-- unfinished runs reserve of it. If only_types is not null, only the levels of these material types are returned.
-- Reservations name a material and a colour; a level with a brand is reserved what spools of other brands do not cover.
create or replace function level_stock(only_types text[])
returns table (level uuid, remaining numeric, reserved numeric, spools bigint)
language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	types text[] := array(
		select distinct l.material_type from stock_levels l
		where l.tenant_id = tenant and (only_types is null or l.material_type = any (only_types)));
begin
	return query
		with stock as materialized (
			select s.material_type, s.color_key, s.brand_key, sum(s.remaining_weight_grams) as grams, count(*) as n
			from spools s
			where s.tenant_id = tenant and s.in_stock and not s.archived and s.hidden_at is null
				and s.created_at < 'infinity' and s.material_type = any (types)
			group by s.material_type, s.color_key, s.brand_key
		), taken as materialized (
			select r.material_type, r.color_key, r.grams
			from reserved_materials(tenant, types, array(select null::text from unnest(types))) r
		)
		select l.id, coalesce(s.grams, 0),
			case when l.brand_key is null then coalesce(t.grams, 0)
				else greatest(coalesce(t.grams, 0) - coalesce(s.others, 0), 0) end,
			coalesce(s.n, 0)::bigint
		from stock_levels l
		left join lateral (
			select sum(s.grams) filter (where l.brand_key is null or s.brand_key = l.brand_key) as grams,
				sum(s.n) filter (where l.brand_key is null or s.brand_key = l.brand_key) as n,
				sum(s.grams) filter (where s.brand_key is distinct from l.brand_key) as others
			from stock s
			where s.material_type = l.material_type and (l.color_key is null or s.color_key = l.color_key)
		) s on true
		left join lateral (
			select sum(t.grams) as grams from taken t
			where t.material_type = l.material_type and (l.color_key is null or t.color_key = l.color_key)
		) t on true
		where l.tenant_id = tenant and l.material_type = any (types);
end $$;

-- Stock levels are correct whatever transactions run at once, because of two locks, which last until commit:
--
--   * A transaction that creates or changes a level takes the first lock alone, with lock_stock_levels, before it locks
--     a row. Transactions that change stock or reservations share it, as the first thing of their commit. So either the
--     one that changes stock has committed before the level reads the stock, or it finds the level when it commits.
--   * Of the transactions that change stock, those that concern a level then take the second lock, one after the other.
--     When two of them make a level low together, the second one reads what the first one has committed, and exactly one
--     finds that the level became low.
--
-- Nothing waits for these locks while it holds the second one, and they come after the locks of all rows other than
-- levels, so that they cannot cause a deadlock.
create or replace function lock_stock_levels() returns void language sql as $$
	select pg_advisory_xact_lock(
		hashtextextended('stock levels ' || nullif(current_setting('app.tenant_id', true), ''), 0))
$$;

-- Updates which stock levels of the tenant are low, of these material types, or of all if they are null, and sends the
-- event inventory.low_stock for each that became low. A level becomes low when the available grams (remaining less
-- reserved) are below its minimum, and fine again when they reach 110 % of it. The transaction must have one of the
-- locks above.
--
-- force_generic_plan: planning the statements for the given arrays takes longer than running them.
create or replace function refresh_levels(only_types text[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	level record;
begin
	for level in
		update stock_levels l set low_since = case when s.is_low then now() end
		from (
			select n.id, n.low_since is null as is_low, s.remaining - s.reserved as available
			from stock_levels n join level_stock(only_types) s on s.level = n.id
			where n.tenant_id = tenant and case when n.low_since is null then s.remaining - s.reserved < n.minimum_grams
				else s.remaining - s.reserved >= n.minimum_grams * 1.1 end
		) s
		where l.tenant_id = tenant and l.id = s.id
		returning l.*, s.available
	loop
		if level.low_since is not null then
			perform emit_event(event_webhooks('inventory.low_stock'), 'inventory.low_stock', json_build_object(
				'id', level.id, 'material_type', level.material_type, 'color', level.color, 'brand', level.brand,
				'minimum_grams', trim_scale(level.minimum_grams), 'available_grams', trim_scale(level.available),
				'missing_grams', trim_scale(level.minimum_grams * 1.1 - level.available),
				'low_since', event_time(level.low_since)));
		end if;
	end loop;
end $$;

-- Refreshes the stock levels when the transaction commits, at its first event: all its statements have run then. An
-- event of a spool concerns the levels of its material, another one all levels. app.stock_refreshed has the material
-- types that the transaction has refreshed, or 'all'.
create or replace function stock_changed() returns trigger language plpgsql as $$
declare
	tenant text := nullif(current_setting('app.tenant_id', true), '');
	refreshed text := coalesce(current_setting('app.stock_refreshed', true), '');
	types text[];
begin
	if refreshed = 'all' then
		return null;
	end if;
	if tg_table_name = 'spools' then
		types := array_remove(array[old.material_type, new.material_type], null);
		if types <@ string_to_array(refreshed, ',') then
			return null;
		end if;
	end if;
	-- An expression, because PERFORM would run a query.
	if refreshed = '' and pg_advisory_xact_lock_shared(hashtextextended('stock levels ' || tenant, 0)) is null then
		return null;
	end if;
	refreshed := set_config('app.stock_refreshed',
		coalesce(refreshed || ',' || array_to_string(types, ','), 'all'), true);
	if exists (
		select from stock_levels l
		where l.tenant_id = tenant::uuid and (types is null or l.material_type = any (types))
	) then
		perform pg_advisory_xact_lock(hashtextextended('low stock ' || tenant, 0));
		perform refresh_levels(types);
	end if;
	return null;
end $$;

-- PostgreSQL has no "create or replace" for these triggers. To change one, a migration drops it.
do $$
declare
	name text;
	events text;
begin
	for name, events in values
		('spools', 'insert or delete or update of remaining_weight_grams, hidden_at, archived, material_type, color, brand'),
		('product_materials', 'insert or delete or update of material_type, color, weight_grams, is_required'),
		('product_components', 'insert or delete or update of component_product_id, quantity'),
		('orders', 'update of status, hidden_at'),
		('order_items', 'insert or delete or update of product_id, quantity'),
		('production_runs', 'update of status, hidden_at or delete'),
		('run_items', 'insert or delete
			or update of product_id, quantity, successful_quantity, failed_quantity, order_item_id'),
		('run_materials', 'insert or delete or update of spool_id, estimated_weight_grams, sent_actual_grams,
			spool_weight_before_grams, spool_weight_after_grams')
	loop
		if not exists (select from pg_trigger where tgrelid = name::regclass and tgname = 'stock_changed') then
			execute format('create constraint trigger stock_changed after %s on %I
				deferrable initially deferred for each row execute function stock_changed()', events, name);
		end if;
	end loop;
end $$;
