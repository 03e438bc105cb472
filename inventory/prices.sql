-- Returns amount / divisor, rounded to six decimals, half away from zero. The result is null if an argument is null
-- or the quotient exceeds 999,999,999. A numeric division has a limited number of decimals, so that round(amount /
-- divisor, 6) would round twice; div() on whole numbers is exact.
create or replace function rounded_quotient(amount numeric, divisor numeric) returns numeric
language sql immutable as $$
	select case when amount <= 999999999 * divisor then div(amount * 2000000 + divisor, divisor * 2) * 0.000001 end
$$;

-- Returns the share of an amount between low and high of a total. The amounts of successive shares add up exactly.
create or replace function share_of(amount numeric, low numeric, high numeric, total numeric) returns numeric
language sql immutable as $$
	select rounded_quotient(amount * high, total) - rounded_quotient(amount * low, total)
$$;

-- Returns the price per gram that the contents of a spool had at a time, or null. See the table spool_contents.
create or replace function spool_price(spool uuid, at timestamptz) returns numeric
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return (
		select case when c.closed_at is null then s.cost_per_gram else c.cost_per_gram end
		from spools s
		left join lateral (
			select x.closed_at, x.cost_per_gram from spool_contents x
			where x.tenant_id = s.tenant_id and x.spool_id = s.id and x.closed_at > at
			order by x.closed_at limit 1
		) c on true
		where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and s.id = spool
	);
end $$;

-- Returns the price of filament for triples of a material key, a color key (the normalized color in the column
-- color_key), and a filament or null. There is one row for each distinct triple, in no particular order.
--
-- The price per gram is amount / grams. It is a fraction so that callers round once, after they multiply. Both are
-- null if there is no price. The function reads the spools of the transaction's tenant that have a price and are not
-- hidden. It treats archived spools as empty. The price is the first of these means that exists:
--
--   1. the mean cost_per_gram of the filament's spools, weighted by remaining weight, if the triple has a filament;
--   2. the plain mean of the same spools, if all of them are empty;
--   3. and 4. the same two means of the spools of that material and color;
--   5. and 6. the same two means of the spools of that material in any color.
--
-- basis tells which mean is used: filament for 1. and 2., color for 3. and 4., material for 5. and 6., null without
-- a price. A spool of another material or diameter never counts: material_key has the rule for what is equal.
create or replace function filament_prices(material_keys text[], color_keys text[], filament_ids uuid[])
returns table (material_key text, color_key text, filament_id uuid, amount numeric, grams numeric, basis text)
language sql stable as $$
	with wanted as materialized (
		select distinct w.material_key collate "C" as material_key, w.color_key collate "C" as color_key, w.filament_id
		from unnest(material_keys, color_keys, filament_ids) w (material_key, color_key, filament_id)
	), own as materialized (
		select w.filament_id, w.material_key, w.color_key, p.amount, p.grams
		from wanted w cross join lateral (
			select case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.cost_per_gram * s.remaining_weight_grams) filter (where not s.archived)
					else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.remaining_weight_grams) filter (where not s.archived)
					else nullif(count(*), 0) end as grams
			from spools s
			where s.material_key = w.material_key and s.color_key = w.color_key and s.filament_id = w.filament_id
				and s.hidden_at is null and s.cost_per_gram is not null
		) p
		where w.filament_id is not null
	), exact as materialized (
		select w.material_key, w.color_key, p.amount, p.grams
		from (
			select distinct w.material_key, w.color_key from wanted w
			where w.filament_id is null or exists (
				select from own o where o.filament_id = w.filament_id and o.material_key = w.material_key
					and o.color_key = w.color_key and o.amount is null)
		) w cross join lateral (
			select case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.cost_per_gram * s.remaining_weight_grams) filter (where not s.archived)
					else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.remaining_weight_grams) filter (where not s.archived)
					else nullif(count(*), 0) end as grams
			from spools s
			where s.material_key = w.material_key and s.color_key = w.color_key
				and s.hidden_at is null and s.cost_per_gram is not null
		) p
	), any_color as materialized (
		select w.material_key, p.amount, p.grams
		from (select distinct e.material_key from exact e where e.amount is null) w cross join lateral (
			select case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.cost_per_gram * s.remaining_weight_grams) filter (where not s.archived)
					else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) filter (where not s.archived) > 0
					then sum(s.remaining_weight_grams) filter (where not s.archived)
					else nullif(count(*), 0) end as grams
			from spools s
			where s.material_key = w.material_key and s.hidden_at is null and s.cost_per_gram is not null
		) p
	)
	select w.material_key, w.color_key, w.filament_id, coalesce(o.amount, e.amount, a.amount),
		case when o.amount is not null then o.grams when e.amount is not null then e.grams else a.grams end,
		case when o.amount is not null then 'filament' when e.amount is not null then 'color'
			when a.amount is not null then 'material' end
	from wanted w
	left join own o on o.filament_id = w.filament_id and o.material_key = w.material_key and o.color_key = w.color_key
	left join exact e on o.amount is null and e.material_key = w.material_key and e.color_key = w.color_key
	left join any_color a on o.amount is null and e.amount is null and a.material_key = w.material_key
$$;
