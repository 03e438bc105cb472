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
