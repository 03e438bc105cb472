-- Returns the products that pieces of products consist of, with the pieces of each: pieces[n] of ids[n], where a
-- product may occur several times, and their components through all levels, in no particular order.
--
-- The loop visits the products from the highest level down, so that each product is read once, however many paths lead
-- to it. A product that was removed may have components with its own level or a higher one; these are read again.
create or replace function explode_pieces(ids uuid[], pieces numeric[]) returns table (id uuid, total numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	all_ids uuid[] := '{}';
	all_pieces numeric[] := '{}';
	level_ids uuid[];
	level_pieces numeric[];
begin
	while cardinality(ids) > 0 loop
		with pending as materialized (
			select u.id, u.pieces, p.levels
			from (select e.id, sum(e.pieces) as pieces from unnest(ids, pieces) e (id, pieces) group by e.id) u
			cross join lateral (select p.levels from products p where p.id = u.id offset 0) p
		), top as materialized (
			select n.id, n.pieces from pending n where n.levels = (select max(m.levels) from pending m)
		), below as (
			select n.id, n.pieces from pending n where n.levels < (select max(m.levels) from pending m)
			union all
			select c.component_product_id, t.pieces * c.quantity from top t cross join lateral (
				select c.component_product_id, c.quantity from product_components c where c.product_id = t.id offset 0
			) c
		)
		select (select array_agg(t.id order by t.id) from top t), (select array_agg(t.pieces order by t.id) from top t),
			array_agg(b.id), array_agg(b.pieces)
		into level_ids, level_pieces, ids, pieces
		from below b;
		all_ids := all_ids || level_ids;
		all_pieces := all_pieces || level_pieces;
	end loop;

	return query
		select e.id, sum(e.pieces) from unnest(all_ids, all_pieces) e (id, pieces) group by e.id;
end $$;

-- Returns the filament that pieces of products need, with the materials of their components. Materials that are not
-- required do not count. One row for each material type and colour key, in no particular order; color is the first
-- spelling of the colour.
create or replace function explode_products(ids uuid[], pieces numeric[])
returns table (material_type text, color_key text, color text, grams numeric)
language plpgsql stable as $$
begin
	return query
		select m.material_type, m.color_key, min(m.color), sum(m.weight_grams * u.total)
		from explode_pieces(ids, pieces) u
		cross join lateral (
			select * from product_materials m where m.product_id = u.id and m.is_required offset 0
		) m
		group by m.material_type, m.color_key;
end $$;

-- Returns the filament and the time to print pieces of products with their components, each null if it is unknown: the
-- grams if no product has a required material, and the minutes if a product has no estimated print time, unless it has
-- components and no materials, and is only put together. labour_minutes is the work, null if it is unknown for a
-- product.
create or replace function estimate_products(ids uuid[], pieces numeric[])
	returns table (grams numeric, minutes numeric, labour_minutes numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return query
		select sum(m.grams * u.total), case when bool_and(t.minutes is not null) then sum(t.minutes * u.total) end,
			case when bool_and(t.labour_minutes is not null) then sum(t.labour_minutes * u.total) end
		from explode_pieces(ids, pieces) u
		cross join lateral (
			select sum(m.weight_grams) as grams from product_materials m where m.product_id = u.id and m.is_required
		) m
		cross join lateral (
			select coalesce(p.estimated_print_time_minutes, case when m.grams is null and exists (
				select from product_components c where c.product_id = p.id) then 0 end) as minutes, p.labour_minutes
			from products p where p.id = u.id offset 0
		) t;
end $$;
