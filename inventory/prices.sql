-- Returns the price of filament for pairs of a material type and a colour key (a colour in its compared form, as
-- the column color_key has it): one row for each distinct pair, in no particular order.
--
-- The price per gram is amount / grams. It is a fraction so that callers round once, after they multiply. Both
-- are null if there is no price. Only spools of the transaction's tenant count that have a price and are not
-- hidden. Archived spools count as empty. The price is the first of these that exists:
--
--   1. the mean cost_per_gram of that material and colour, weighted by the remaining filament;
--   2. the plain mean of these, if nothing remains on any of them;
--   3. and 4. the same two over that material in any colour.
create or replace function filament_prices(material_types text[], color_keys text[])
returns table (material_type text, color_key text, amount numeric, grams numeric)
language sql stable as $$
	with wanted as (
		select distinct w.material_type collate "C" as material_type, w.color_key collate "C" as color_key
		from unnest(material_types, color_keys) w (material_type, color_key)
	), exact as materialized (
		select w.material_type, w.color_key, p.amount, p.grams
		from wanted w cross join lateral (
			select case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.cost_per_gram * s.remaining_weight_grams) filter (where not s.archived)
					else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.remaining_weight_grams) filter (where not s.archived)
					else nullif(count(*), 0) end as grams
			from spools s
			where s.material_type = w.material_type and s.color_key = w.color_key
				and s.hidden_at is null and s.cost_per_gram is not null
		) p
	), any_color as materialized (
		select w.material_type, p.amount, p.grams
		from (select distinct e.material_type from exact e where e.amount is null) w cross join lateral (
			select case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.cost_per_gram * s.remaining_weight_grams) filter (where not s.archived)
					else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.remaining_weight_grams) filter (where not s.archived)
					else nullif(count(*), 0) end as grams
			from spools s
			where s.material_type = w.material_type and s.hidden_at is null and s.cost_per_gram is not null
		) p
	)
	select e.material_type, e.color_key, coalesce(e.amount, a.amount),
		case when e.amount is null then a.grams else e.grams end
	from exact e left join any_color a on e.amount is null and a.material_type = e.material_type
$$;
