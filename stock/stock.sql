-- Returns the filament that the open orders and unfinished runs of the tenant still take: grams for each material type
-- and colour key, in no particular order. This is the only place that says what reserves filament:
--
--   * An open order (received or in_production) reserves the bills of materials of the pieces of its items that are
--     neither produced nor planned in an unfinished run.
--   * An unfinished run (pending, in_progress or paused) reserves the weights of its materials: the actual weight, or
--     the estimate while there is none. A run without any such weight reserves the bills of materials of its items.
--     What printers have reported for the run is not reserved any more; see unfinished_materials.
--
-- The tenant must be that of the transaction. If only_types is not null, only the filaments
-- (only_types[n], only_keys[n]) are returned; a null key stands for all colours. without_orders reserve nothing;
-- runs that print their items do.
create or replace function reserved_materials(
	tenant uuid, only_types text[] default null, only_keys text[] default null, without_orders uuid[] default '{}'
)
returns table (material_type text, color_key text, grams numeric)
language plpgsql stable as $$
declare
	unweighed uuid[];
	reported uuid[]; -- those of them that may have reports
	ids uuid[];
	pieces numeric[];
begin
	select array_agg(r.id) filter (where not r.reported), array_agg(r.id) filter (where r.reported)
	into unweighed, reported
	from (
		select r.*, r.status <> 'pending' and exists (
			select from run_materials m where m.tenant_id = tenant and m.run_id = r.id) as reported
		from production_runs r
	) r
	where r.tenant_id = tenant and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
		and not exists (
			select from run_materials m
			where m.tenant_id = tenant and m.run_id = r.id
				and coalesce(m.actual_weight_grams, m.estimated_weight_grams) is not null);

	select array_agg(n.product_id), array_agg(n.pieces) into ids, pieces
	from (
		select w.product_id, sum(w.pieces) as pieces
		from (
			select i.product_id, greatest(0, i.quantity - p.produced - p.planned) as pieces
			from orders o
			cross join lateral (
				select i.id, i.product_id, i.quantity from order_items i
				where i.tenant_id = tenant and i.order_id = o.id offset 0
			) i
			cross join lateral order_item_pieces(i.id) p
			where o.tenant_id = tenant and o.is_open and o.id <> all (without_orders)
			union all
			select i.product_id, i.quantity
			from unnest(unweighed) u (id)
			cross join lateral (
				select i.product_id, i.quantity from run_items i where i.tenant_id = tenant and i.run_id = u.id offset 0
			) i
		) w
		group by w.product_id
	) n
	where n.pieces > 0;

	return query
		select t.material_type, t.color_key, sum(t.grams)
		from (
			select e.material_type, e.color_key, e.grams from explode_products(ids, pieces) e
			union all
			select s.material_type, s.color_key, m.grams
			from unfinished_materials() m
			cross join lateral (
				select s.material_type, s.color_key from spools s where s.tenant_id = tenant and s.id = m.spool_id offset 0
			) s
			union all
			select e.material_type, e.color_key, e.grams - coalesce(u.grams, 0)
			from unnest(reported) r (id)
			cross join lateral (
				select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces
				from run_items i where i.tenant_id = tenant and i.run_id = r.id
			) i
			cross join lateral explode_products(i.ids, i.pieces) e
			left join lateral (
				select sum(u.reported) as grams from run_use(r.id) u
				cross join lateral (
					select s.material_type, s.color_key from spools s where s.tenant_id = tenant and s.id = u.spool_id offset 0
				) s
				where s.material_type = e.material_type and s.color_key = e.color_key
			) u on true
		) t
		where t.grams > 0 and (only_types is null or exists (
			select from unnest(only_types, only_keys) f (material_type, color_key)
			where f.material_type = t.material_type and coalesce(f.color_key, t.color_key) = t.color_key))
		group by t.material_type, t.color_key;
end $$;

-- Returns what filament pieces of products need, and what there is: pieces[n] of ids[n]. One row for each material and
-- colour that any of the pieces need, with grams:
--
--   needed     for waiting[n] of the pieces; the others are in unfinished runs. A null array stands for all pieces
--   remaining  on the spools that are neither archived nor hidden
--   reserved   by open orders and unfinished runs, except without_order (see reserved_materials)
--   available  remaining less reserved, which may be negative
--   missing    needed less available, or 0
--
-- No number exceeds 999,999,999. spools is a JSON array of the spools that have all that is needed, at most ten, those
-- with the least filament first. The tenant must be that of the transaction.
create or replace function available_materials(
	tenant uuid, ids uuid[], pieces numeric[], waiting numeric[], without_order uuid
)
returns table (
	material_type text, color text, needed numeric, remaining numeric, reserved numeric, available numeric,
	missing numeric, spools json
)
language plpgsql stable as $$
declare
	types text[];
	keys text[];
	colors text[];
	needs numeric[];
begin
	select array_agg(e.material_type), array_agg(e.color_key), array_agg(e.color), array_agg(e.grams)
	into types, keys, colors, needs
	from explode_products(ids, pieces) e;
	if waiting is not null then
		needs := array(
			select coalesce(w.grams, 0)
			from unnest(types, keys) with ordinality u (material_type, color_key, n)
			left join explode_products(ids, waiting) w
				on w.material_type = u.material_type and w.color_key = u.color_key
			order by u.n);
	end if;

	return query
		with reserves as materialized (
			select r.material_type, r.color_key, r.grams
			from reserved_materials(tenant, types, keys, array_remove(array[without_order], null)) r
		), stock as materialized (
			select u.material_type, u.color_key, u.color, u.needed,
				coalesce((select r.grams from reserves r
					where r.material_type = u.material_type and r.color_key = u.color_key), 0) as reserved,
				coalesce((select sum(s.remaining_weight_grams) from spools s
					where s.tenant_id = tenant and s.material_type = u.material_type and s.color_key = u.color_key
						and s.in_stock and not s.archived and s.hidden_at is null
						and s.created_at < 'infinity'), 0) as remaining
			from unnest(types, keys, colors, needs) u (material_type, color_key, color, needed)
		)
		select k.material_type, k.color, least(k.needed, 999999999), least(k.remaining, 999999999),
			least(k.reserved, 999999999), greatest(k.remaining - k.reserved, -999999999),
			least(greatest(k.needed + k.reserved - k.remaining, 0), 999999999),
			(
				select coalesce(json_agg(json_build_object('id', f.id, 'number', f.number,
					'name', spool_name(f.material_type, f.color, f.brand),
					'remaining_weight_grams', trim_scale(f.remaining_weight_grams), 'location', f.location)
					order by f.remaining_weight_grams, f.number), '[]')
				from (
					select s.* from spools s
					where s.tenant_id = tenant and s.material_type = k.material_type and s.color_key = k.color_key
						and s.in_stock and not s.archived and s.hidden_at is null and s.created_at < 'infinity'
						and k.needed > 0 and s.remaining_weight_grams >= k.needed
					order by s.remaining_weight_grams, s.number limit 10
				) f
			)
		from stock k;
end $$;

-- Returns for each stock level of the tenant the grams and the number of its spools in stock, and what open orders and
-- unfinished runs reserve of it. If only_types is not null, only the levels of these material types are returned.
-- Reservations name a material and a colour; a level with a brand is reserved what spools of other brands do not
-- cover.
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
--   * A transaction that creates or changes a level takes the first lock alone, with lock_stock_levels, before it
--     locks a row. Transactions that change stock or reservations share it, as the first thing of their commit. So
--     either the one that changes stock has committed before the level reads the stock, or it finds the level when it
--     commits.
--   * Of the transactions that change stock, those that concern a level then take the second lock, one after the
--     other. When two of them make a level low together, the second one reads what the first one has committed, and
--     exactly one finds that the level became low.
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
