-- Returns the filament that the open orders and unfinished runs of the tenant still take: grams for each material
-- key, color key and filament, in no particular order. The filament is null if any filament of the material and
-- color is suitable. by_run is true for filament that runs take from their spools, even if the spools lack it. This is
-- the only place with the rules for reserved filament:
--
--   * An open order (received or in_production) reserves the materials of the pieces that must be printed for its
--     items: those that are missing by net_pieces, because they are neither in stock nor in an unfinished run.
--   * An unfinished run (pending, in_progress or paused) reserves the weights of its materials: the actual weight, or
--     the estimate if there is no actual weight. A run without any such weight reserves the bills of materials of its
--     items, except the components that it takes from stock: those that are missing are reserved as for orders.
--     Filament that printers have reported for the run is no longer reserved; see unfinished_materials.
--
-- The tenant must be the tenant of the transaction. Only the filaments (materials[n], colors[n]) are returned; a
-- null color key stands for all colors. The orders without_orders reserve nothing, but runs that print their items
-- do. If without_orders is null, no order reserves anything, nor do components that unfinished runs take from stock.
create or replace function reserved_materials(
	tenant uuid, materials text[], colors text[], without_orders uuid[] default '{}'
)
returns table (material_key text, color_key text, filament_id uuid, by_run boolean, grams numeric)
language plpgsql stable as $$
declare
	unweighed uuid[];
	reported uuid[]; -- the unweighed runs that may have reports
	ids uuid[];
	pieces numeric[];
	alone boolean[];
begin
	select array_agg(r.id) filter (where not r.reported), array_agg(r.id) filter (where r.reported)
	into unweighed, reported
	from (
		select r.*, (r.status <> 'pending' or r.started_at is not null) and exists (
			select from run_materials m where m.tenant_id = tenant and m.run_id = r.id) as reported
		from production_runs r
	) r
	where r.tenant_id = tenant and r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null
		and not exists (
			select from run_materials m
			where m.tenant_id = tenant and m.run_id = r.id
				and coalesce(m.actual_weight_grams, m.estimated_weight_grams) is not null offset 0);

	select array_agg(n.product_id), array_agg(n.pieces), array_agg(n.alone) into ids, pieces, alone
	from (
		select w.product_id, w.alone, sum(w.pieces) as pieces
		from (
			select n.product_id, n.missing::numeric as pieces, true as alone
			from net_pieces(case when without_orders is null then '{}' end::uuid[]) n -- without products, it does nothing
			where n.printed and n.missing > 0 and (n.order_id <> all (without_orders)) is not false
			union all
			select i.product_id, i.quantity, i.parts_from_stock
			from unnest(unweighed) u (id)
			cross join lateral (
				select * from run_items i where i.tenant_id = tenant and i.run_id = u.id offset 0
			) i
		) w
		group by w.product_id, w.alone
	) n;

	return query
		select t.material_key, t.color_key, t.filament_id, t.by_run, sum(t.grams)
		from (
			select e.material_key, e.color_key, e.filament_id, false as by_run, e.grams
			from explode_products(ids, pieces, alone) e
			union all
			select s.material_key, s.color_key, s.filament_id, true, m.grams
			from unfinished_materials() m
			cross join lateral (
				select s.material_key, s.color_key, s.filament_id from spools s
				where s.tenant_id = tenant and s.id = m.spool_id offset 0
			) s
			union all
			select e.material_key, e.color_key, e.filament_id, false, e.grams - coalesce(u.grams, 0)
			from unnest(reported) r (id)
			cross join lateral (
				select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces,
					array_agg(i.parts_from_stock) as alone
				from run_items i where i.tenant_id = tenant and i.run_id = r.id
			) i
			cross join lateral explode_products(i.ids, i.pieces, i.alone) e
			left join lateral (
				select sum(u.reported) as grams from run_use(r.id) u
				cross join lateral (
					select s.material_key, s.color_key, s.filament_id from spools s
					where s.tenant_id = tenant and s.id = u.spool_id offset 0
				) s
				where s.material_key = e.material_key and s.color_key = e.color_key
					and (s.filament_id = e.filament_id or e.filament_id is null and (s.filament_id is null or not exists (
						select from explode_products(i.ids, i.pieces, i.alone) o where o.filament_id = s.filament_id)))
			) u on true
		) t
		where t.grams > 0 and exists (
			select from unnest(materials, colors) f (material_key, color_key)
			where f.material_key = t.material_key and coalesce(f.color_key, t.color_key) = t.color_key)
		group by t.material_key, t.color_key, t.filament_id, t.by_run;
end $$;

-- Returns the stock of the filaments (materials[n], colors[n]) and its reservations, in groups of spools. A group
-- has the spools of one filament or, for spools without a filament, of one brand. A null color key stands for all
-- colors.
--
--   remaining  the grams on the spools that are neither archived nor hidden
--   own        the grams reserved of this group only: by bills of materials that name its filament, and by runs with
--              its spools
--   held       the part of own that the group has
--   loose      the grams reserved of the material and color in any group: by bills of materials that name no
--              filament, by runs with spools without a filament, and by runs that take more of a group than it has.
--              All groups of a material and color have the same value
--
-- The free grams of a material and color are the sum of remaining - held over its groups, less loose. The free
-- grams of one group are remaining - own, less the part of loose that exceeds the free grams of the other groups.
--
-- The tenant must be the tenant of the transaction; see reserved_materials for without_orders.
create or replace function filament_stock(
	tenant uuid, materials text[], colors text[], without_orders uuid[] default '{}'
)
returns table (material_key text, color_key text, filament_id uuid, brand_key text, remaining numeric, spools bigint,
	own numeric, held numeric, loose numeric)
language plpgsql stable as $$
begin
	return query
		with wanted as materialized (
			select distinct u.material_key collate "C" as material_key, u.color_key collate "C" as color_key
			from unnest(materials, colors) u (material_key, color_key)
		), spool as (
			select s.material_key, s.color_key, s.filament_id, s.brand_key, s.remaining_weight_grams as grams
			from wanted w
			cross join lateral (
				select * from spools s
				where s.tenant_id = tenant and s.color_key = w.color_key and s.material_key = w.material_key
					and s.in_stock and not s.archived and s.hidden_at is null
			) s
			where w.color_key is not null
			union all
			select s.material_key, s.color_key, s.filament_id, s.brand_key, s.remaining_weight_grams
			from spools s
			where s.tenant_id = tenant and s.in_stock and not s.archived and s.hidden_at is null
				and s.material_type = any (array(
					select split_part(w.material_key, '/', 1) from wanted w where w.color_key is null))
				and s.material_key = any (array(select w.material_key from wanted w where w.color_key is null))
				and not exists (select from wanted w where w.material_key = s.material_key and w.color_key = s.color_key)
		), stock as materialized (
			select s.material_key, s.color_key, s.filament_id, s.brand_key, sum(s.grams) as grams, count(*) as n
			from spool s group by s.material_key, s.color_key, s.filament_id, s.brand_key
		), claim as materialized (
			select r.material_key, r.color_key, r.filament_id, sum(r.grams) filter (where r.by_run) as run,
				sum(r.grams) filter (where not r.by_run) as bill
			from reserved_materials(tenant, materials, colors, without_orders) r
			group by r.material_key, r.color_key, r.filament_id
		), part as (
			select coalesce(s.material_key, c.material_key) as material_key, coalesce(s.color_key, c.color_key) as color_key,
				coalesce(s.filament_id, c.filament_id) as filament_id,
				case when s.material_key is not null then s.brand_key
					else (select f.vendor_key from filaments f where f.tenant_id = tenant and f.id = c.filament_id) end
						as brand_key,
				coalesce(s.grams, 0) as grams, coalesce(s.n, 0) as n, coalesce(c.run, 0) as run, coalesce(c.bill, 0) as bill,
				0 as loose
			from stock s
			full join (select * from claim c where c.filament_id is not null) c on c.material_key = s.material_key
				and c.color_key = s.color_key and c.filament_id = s.filament_id
			union all
			select c.material_key, c.color_key, null, null, 0, 0, 0, 0, coalesce(c.run, 0) + coalesce(c.bill, 0)
			from claim c where c.filament_id is null
		)
		select p.material_key, p.color_key, p.filament_id, p.brand_key, p.grams, p.n::bigint,
			least(p.run, p.grams) + p.bill, least(p.run + p.bill, p.grams),
			sum(p.loose + greatest(p.run - p.grams, 0)) over (partition by p.material_key, p.color_key)
		from part p;
end $$;

-- Returns the filament that pieces[n] pieces of the products ids[n] need, and its stock. If alone[n] is true, they
-- need no components. There is one row for each filament that any piece needs, with its keys (see explode_products),
-- and grams:
--
--   needed     for waiting[n] of the pieces; the others are in unfinished runs. A null array stands for all pieces
--   remaining  on the spools that are neither archived nor hidden
--   reserved   by open orders and unfinished runs, except without_order (see filament_stock)
--   available  remaining less reserved, which may be negative
--   missing    needed less available, at least 0. If the pieces also need a single filament of the material and
--              color, that filament takes its part first
--
-- No number exceeds 999,999,999. spools is a JSON array of at most ten spools that alone have the needed grams, the
-- spools with the least filament first. The tenant must be the tenant of the transaction.
create or replace function available_materials(
	tenant uuid, ids uuid[], pieces numeric[], waiting numeric[], without_order uuid, alone boolean[] default '{}'
)
returns table (
	material_key text, color_key text, filament_id uuid, material_type text, material_name text, diameter_mm numeric,
	color text, brand text, needed numeric, remaining numeric, reserved numeric, available numeric, missing numeric,
	spool_count bigint, spools json
)
language plpgsql stable as $$
declare
	materials text[];
	keys text[];
	filaments uuid[];
	types text[];
	names text[];
	diameters numeric[];
	colors text[];
	needs numeric[];
begin
	select array_agg(e.material_key), array_agg(e.color_key), array_agg(e.filament_id), array_agg(e.material_type),
		array_agg(e.material_name), array_agg(e.diameter_mm), array_agg(e.color), array_agg(e.grams)
	into materials, keys, filaments, types, names, diameters, colors, needs
	from explode_products(ids, pieces, alone) e;
	if waiting is not null then
		needs := array(
			select coalesce(w.grams, 0)
			from unnest(materials, keys, filaments) with ordinality u (material_key, color_key, filament_id, n)
			left join explode_products(ids, waiting, alone) w on w.material_key = u.material_key
				and w.color_key = u.color_key and w.filament_id is not distinct from u.filament_id
			order by u.n);
	end if;

	return query
		with part as materialized (
			select p.* from filament_stock(tenant, materials, keys, array_remove(array[without_order], null)) p
		), need as materialized (
			select u.* from unnest(materials, keys, filaments, types, names, diameters, colors, needs) u
				(material_key, color_key, filament_id, material_type, material_name, diameter_mm, color, needed)
		), stock as materialized (
			select n.*, coalesce(p.remaining, 0) as remaining, coalesce(p.n, 0)::bigint as spool_count,
				case when n.filament_id is null then coalesce(p.held, 0) + coalesce(p.loose, 0)
					else coalesce(p.own, 0) + greatest(coalesce(p.loose, 0) - coalesce(p.others, 0), 0) end as reserved,
				-- The grams of materials that name one filament. The pieces take these first.
				case when n.filament_id is null then coalesce((
					select sum(least(m.needed, greatest(q.remaining - q.held, 0)))
					from need m join part q on q.filament_id = m.filament_id
						and q.material_key = m.material_key and q.color_key = m.color_key
					where m.material_key = n.material_key and m.color_key = n.color_key), 0) else 0 end as taken
			from need n
			left join lateral (
				select sum(q.remaining) filter (where n.filament_id is null or q.filament_id = n.filament_id) as remaining,
					sum(q.spools) filter (where n.filament_id is null or q.filament_id = n.filament_id) as n,
					sum(q.own) filter (where q.filament_id = n.filament_id) as own, sum(q.held) as held,
					max(q.loose) as loose,
					sum(q.remaining - q.held) filter (where q.filament_id is distinct from n.filament_id) as others
				from part q where q.material_key = n.material_key and q.color_key = n.color_key
			) p on true
		)
		select k.material_key, k.color_key, k.filament_id, k.material_type, k.material_name, k.diameter_mm, k.color,
			(select f.vendor_name from filaments f where f.tenant_id = tenant and f.id = k.filament_id),
			least(k.needed, 999999999), least(k.remaining, 999999999), least(k.reserved, 999999999),
			greatest(k.remaining - k.reserved, -999999999),
			least(greatest(k.needed + k.reserved + k.taken - k.remaining, 0), 999999999), k.spool_count,
			(
				select coalesce(json_agg(json_build_object('id', f.id, 'number', f.number,
					'name', spool_name(f.material_type, f.material_name, f.color, f.brand),
					'remaining_weight_grams', trim_scale(f.remaining_weight_grams), 'location', f.location)
					order by f.remaining_weight_grams, f.number), '[]')
				from (
					select s.* from spools s
					where s.tenant_id = tenant and s.material_key = k.material_key and s.color_key = k.color_key
						and (k.filament_id is null or s.filament_id = k.filament_id)
						and s.in_stock and not s.archived and s.hidden_at is null
						and k.needed > 0 and s.remaining_weight_grams >= k.needed
					order by s.remaining_weight_grams, s.number limit 10
				) f
			)
		from stock k;
end $$;

-- Returns the similarity of two texts from 0 to 1: twice the number of letter pairs that both texts have, divided by
-- the number of letter pairs in both. A letter pair is two adjacent letters. Equal texts have the similarity 1.
create or replace function likeness(a text, b text) returns numeric language sql immutable as $$
	with pair as (
		select distinct t.n, substr(' ' || t.text || ' ', i, 2) as letters
		from (values (1, left(a, 100)), (2, left(b, 100))) t (n, text), generate_series(1, length(t.text) + 1) i
	)
	select case when a = b then 1 else round(2.0 * count(*) filter (where p.both) / nullif(count(*), 0), 4) end
	from (select count(*) over (partition by letters) > 1 as both, n from pair) p
$$;

-- Returns a JSON array of at most ten filaments of a material type that are in stock. The filaments that are most
-- similar to the wanted filament come first. The function reads the newest 2,000 spools of the type.
create or replace function similar_spools(tenant uuid, material text, wanted_material text, wanted_color text)
returns json language sql stable as $$
	select coalesce(json_agg(json_build_object('material_type', material, 'material_name', o.material_name,
		'color', o.color, 'diameter_mm', trim_scale(o.diameter_mm), 'remaining_grams', trim_scale(o.grams))
		order by o.n), '[]')
	from (
		select f.*, row_number() over (order by (f.material_key = wanted_material)::int
			+ (f.diameter_mm = split_part(wanted_material, '/', 3)::numeric)::int
			+ 2 * likeness(f.color_key, wanted_color) desc, f.grams desc, f.material_key, f.color_key) as n
		from (
			select s.material_key, s.color_key, min(s.material_name) as material_name, min(s.color) as color,
				min(s.diameter_mm) as diameter_mm, least(sum(s.remaining_weight_grams), 999999999) as grams
			from (
				select * from spools s
				where s.tenant_id = tenant and s.material_type = material and not s.archived and s.hidden_at is null
				order by s.created_at desc, s.id desc limit 2000
			) s
			where s.in_stock
			group by s.material_key, s.color_key
		) f
	) o where o.n <= 10
$$;

-- Returns the stock levels of the tenant, or only those with the given ids: the grams and the number of their spools
-- in stock, the grams that open orders and unfinished runs reserve of them (see filament_stock), and whether they are
-- low. A reservation without a brand counts for a level with a brand only as far as other brands cannot cover it.
--
-- A level is low if the available grams (remaining less reserved) are less than its minimum. A level that
-- check_levels has found low is low until they reach 110 % of the minimum.
create or replace function level_stock(only_ids uuid[])
returns table (level uuid, remaining numeric, reserved numeric, spools bigint, low boolean)
language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	usual numeric := usual_diameter();
	materials text[];
	colors text[];
begin
	select array_agg(k.material_key), array_agg(k.color_key) into materials, colors
	from (
		select distinct material_key(l.material_type, l.material_name, coalesce(l.diameter_mm, usual)) as material_key,
			l.color_key
		from stock_levels l
		where l.tenant_id = tenant and (only_ids is null or l.id = any (only_ids))
	) k;
	return query
		with part as materialized (
			select p.* from filament_stock(tenant, materials, colors) p
		), wanted as materialized (
			select l.id, l.color_key, l.brand_key,
				material_key(l.material_type, l.material_name, coalesce(l.diameter_mm, usual)) as material_key,
				l.minimum_grams * case when l.low_since is null then 1 else 1.1 end as enough
			from stock_levels l
			where l.tenant_id = tenant and (only_ids is null or l.id = any (only_ids))
		)
		select w.id, s.remaining, s.reserved, s.spools::bigint, s.remaining - s.reserved < w.enough
		from wanted w
		cross join lateral (
			select coalesce(sum(c.remaining), 0) as remaining, coalesce(sum(c.spools), 0) as spools,
				coalesce(sum(c.own + greatest(c.loose - c.others, 0)), 0) as reserved
			from (
				select coalesce(sum(p.remaining) filter (where w.brand_key is null or p.brand_key = w.brand_key), 0)
						as remaining,
					coalesce(sum(p.spools) filter (where w.brand_key is null or p.brand_key = w.brand_key), 0) as spools,
					coalesce(sum(p.own) filter (where w.brand_key is null or p.brand_key = w.brand_key), 0) as own,
					coalesce(sum(p.remaining - p.held) filter (
						where w.brand_key is not null and p.brand_key is distinct from w.brand_key), 0) as others,
					max(p.loose) as loose
				from part p
				where p.material_key = w.material_key and (w.color_key is null or p.color_key = w.color_key)
				group by p.color_key
			) c
		) s;
end $$;

-- Returns what to buy for a stock level, as the fields of Go's Purchase, so that it brings the grams. The material, the
-- color and the brand are the keys of the level. The filament is the one whose spool was added last, or else the
-- newest, of the newest 20 of the level. Without a filament, the newest spool that has a price says what to buy.
create or replace function level_purchase(the_material text, the_color text, the_brand text, grams numeric)
returns json language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	article record;
begin
	select f.id, f.vendor_name as vendor, f.article_number, f.url, f.price as usual, s.purchase_price as paid,
		coalesce(f.net_weight_grams, s.net_weight_grams) as net
	into article
	from (
		select * from filaments f
		where f.tenant_id = tenant and f.hidden_at is null and f.material_type = split_part(the_material, '/', 1)
			and (the_color is null or f.color_key = the_color) and (the_brand is null or f.vendor_key = the_brand)
			and material_key(f.material_type, f.material_name, f.diameter_mm) = the_material
		order by f.created_at desc, f.id desc limit 20
	) f
	left join lateral (
		select n.* from unnest(array[false, true]) a (archived)
		cross join lateral (
			select s.created_at, s.purchase_price, s.net_weight_grams from spools s
			where s.tenant_id = tenant and s.filament_id = f.id and s.archived = a.archived and s.hidden_at is null
			order by s.created_at desc, s.id desc limit 1
		) n
		order by n.created_at desc limit 1
	) s on true
	order by s.created_at desc nulls last, f.created_at desc, f.id desc limit 1;
	if not found then
		select null::uuid as id, s.brand as vendor, null as article_number, null as url, null::numeric as usual,
			s.purchase_price as paid, s.net_weight_grams as net
		into article
		from spools s
		where s.tenant_id = tenant and s.material_key = the_material and (the_color is null or s.color_key = the_color)
			and (the_brand is null or s.brand_key = the_brand) and s.hidden_at is null and s.cost_per_gram is not null
		order by s.created_at desc, s.id desc limit 1;
	end if;
	return json_build_object('filament_id', article.id, 'vendor', article.vendor,
		'article_number', article.article_number, 'url', article.url,
		'price', trim_scale(coalesce(article.paid, article.usual)),
		'price_of', case when article.paid is not null then 'spool' when article.usual is not null then 'filament' end,
		'net_weight_grams', trim_scale(article.net),
		'spools', case when article.net is not null then least(ceil(grams / article.net), 999999999) end);
end $$;

-- Updates low_since of the tenant's stock levels that became low or are no longer low, and sends the event
-- inventory.low_stock for each level that became low.
--
-- A transaction that changes the stock does not check levels, because it would have to wait for all other changes of
-- the stock, and to add up all spools of a level. It only adds its tenant to the queue (see stock_changed), and a
-- Watcher calls this function after the commit. A level that is low only between two checks sends no event.
--
-- Of two concurrent checks, only one changes a level. A level that changes during a check is checked again.
create or replace function check_levels() returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	level record;
begin
	perform set_config('app.stock_changed', tenant::text, true); -- changes by a check need no other check
	if not exists (select from stock_levels l where l.tenant_id = tenant) then
		return; -- without reading runs and orders
	end if;
	for level in
		update stock_levels l set low_since = case when s.low then now() end
		from (select s.level as id, s.low, s.remaining - s.reserved as available from level_stock(null) s) s
		where l.tenant_id = tenant and l.id = s.id and s.low = (l.low_since is null)
		returning l.*, s.available
	loop
		if level.low_since is not null then
			perform emit_event(event_webhooks('inventory.low_stock'), 'inventory.low_stock', json_build_object(
				'id', level.id, 'material_type', level.material_type, 'material_name', level.material_name,
				'color', level.color, 'brand', level.brand, 'diameter_mm', trim_scale(level.diameter_mm),
				'minimum_grams', trim_scale(level.minimum_grams), 'available_grams', trim_scale(level.available),
				'missing_grams', trim_scale(level.minimum_grams * 1.1 - level.available),
				'low_since', event_time(level.low_since)));
		end if;
	end loop;
end $$;

-- Raises a violation of the check stock_levels_limit, which is not a constraint of a table, if the tenant has more
-- levels than `most`. Concurrent transactions that create levels run one after the other here, and see each other's
-- levels.
create or replace function limit_levels(most int) returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	perform pg_advisory_xact_lock(hashtextextended('stock levels ' || tenant, 0));
	if (select count(*) from stock_levels l where l.tenant_id = tenant) > most then
		raise exception 'too many levels' using errcode = 'check_violation', constraint = 'stock_levels_limit';
	end if;
end $$;

-- Adds the tenant to the queue, so that a Watcher checks it after the commit, if the tenant has a stock level or the
-- trigger has the argument 'pieces': the change then also concerns pieces and orders. It never waits. After that,
-- app.stock_changed has the id of the tenant, so that a transaction adds it once. The policy of stock_levels selects
-- the tenant; another condition would double the cost.
--
-- The triggers run after the change: a transaction that does not see a new level has its number before the level is
-- committed, and the Watcher checks the level again after the transaction has ended.
create or replace function stock_changed() returns trigger language plpgsql as $$
begin
	if (tg_nargs > 0 or exists (select from stock_levels))
			and current_setting('app.tenant_id', true) <> coalesce(current_setting('app.stock_changed', true), '') then
		perform queue_add(array[set_config('app.stock_changed', current_setting('app.tenant_id'), true)::uuid], 'stock');
	end if;
	return null;
end $$;

create or replace trigger stock_changed after insert or delete or update of remaining_weight_grams, hidden_at,
	archived, material_type, material_name, diameter_mm, color, brand, filament_id
	on spools execute function stock_changed();
create or replace trigger stock_changed after insert or delete or update of diameter_mm, status, hidden_at
	on printers execute function stock_changed();
create or replace trigger stock_changed after insert or delete or update of spool_id, estimated_weight_grams,
	sent_actual_grams, spool_weight_before_grams, spool_weight_after_grams
	on run_materials execute function stock_changed();
create or replace trigger stock_changed after delete or update of status, hidden_at
	on production_runs execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or delete or update of product_id, quantity,
	successful_quantity, failed_quantity, parts_from_stock, order_item_id
	on run_items execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or update of status, hidden_at, due_date, unassigned_count
	on orders execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or delete or update of product_id, quantity,
	withdrawn_at, delivered
	on order_items execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or update of on_hand
	on product_pieces execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or update of minimum_pieces, hidden_at
	on products execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or delete or update of material_type, material_name, color,
	diameter_mm, filament_id, weight_grams, is_required
	on product_materials execute function stock_changed('pieces');
create or replace trigger stock_changed after insert or delete or update of component_product_id, quantity
	on product_components execute function stock_changed('pieces');
create or replace trigger stock_changed after update of assemble_on_delivery on tenants for each row
	when (old.assemble_on_delivery <> new.assemble_on_delivery) execute function stock_changed('pieces');

-- A tenant has at most one level for a filament, color and brand.
create unique index if not exists stock_levels_filament on stock_levels (tenant_id,
	material_key(material_type, material_name, coalesce(diameter_mm, 0)), coalesce(color_key, ''),
	coalesce(brand_key, ''));
