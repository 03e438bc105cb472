-- Returns the filament that the open orders and unfinished runs of the tenant still take: grams for each material type
-- and colour key, in no particular order. This is the only place that says what reserves filament:
--
--   * An open order (received or in_production) reserves the bills of materials of the pieces of its items that are
--     neither produced nor planned in an unfinished run.
--   * An unfinished run (pending, in_progress or paused) reserves the weights of its materials: the actual weight, or
--     the estimate while there is none. A run without any such weight reserves the bills of materials of its items.
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
	runs uuid[];
	unweighed uuid[];
	ids uuid[];
	pieces numeric[];
begin
	select array_agg(r.id), array_agg(r.id) filter (where not exists (
		select from run_materials m
		where m.tenant_id = tenant and m.run_id = r.id
			and coalesce(m.actual_weight_grams, m.estimated_weight_grams) is not null))
	into runs, unweighed
	from production_runs r
	where r.tenant_id = tenant and r.status in ('pending', 'in_progress', 'paused'); -- these are never hidden

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
			from unnest(runs) r (id)
			cross join lateral (
				select m.spool_id, coalesce(m.actual_weight_grams, m.estimated_weight_grams) as grams
				from run_materials m where m.tenant_id = tenant and m.run_id = r.id offset 0
			) m
			cross join lateral (
				select s.material_type, s.color_key from spools s where s.tenant_id = tenant and s.id = m.spool_id offset 0
			) s
		) t
		where t.grams > 0 and (only_types is null or exists (
			select from unnest(only_types, only_keys) f (material_type, color_key)
			where f.material_type = t.material_type and coalesce(f.color_key, t.color_key) = t.color_key))
		group by t.material_type, t.color_key;
end $$;
