-- Returns the numbers of good and failed pieces of an item, by the status of its run. If a completed run has no
-- counts, all pieces are good. All pieces of a failed run are failed. In other runs, both numbers are 0.
create or replace function run_item_pieces(status text, quantity int, successful_quantity int, failed_quantity int)
returns table (good int, failed int)
language sql immutable as $$
	select case status when 'completed' then coalesce(successful_quantity, quantity - coalesce(failed_quantity, 0))
			else 0 end,
		case status when 'completed' then coalesce(failed_quantity, quantity - successful_quantity, 0)
			when 'failed' then quantity else 0 end
$$;

-- Returns the items of a run, each with its share of the run's cost. The shares are proportional to the items'
-- estimated costs, or to their quantities if no item has an estimate. The share of an item is the interval from low
-- to high of total.
create or replace function run_shares(run uuid) returns table (id uuid, product_id uuid, order_item_id uuid,
	quantity int, successful_quantity int, failed_quantity int, failure_reason text, low numeric, high numeric,
	total numeric)
language sql stable as $$
	select i.id, i.product_id, i.order_item_id, i.quantity, i.successful_quantity, i.failed_quantity, i.failure_reason,
		sum(i.weight) over w - i.weight, sum(i.weight) over w, sum(i.weight) over ()
	from (
		select i.*, case when coalesce(sum(i.cost) over (), 0) = 0 then i.quantity else coalesce(i.cost, 0) end as weight
		from (
			select x.*, greatest(x.estimated_material_cost, x.estimated_total_cost) as cost
			from run_items x where x.run_id = run
		) i
	) i
	window w as (order by i.created_at, i.id rows between unbounded preceding and current row)
$$;

-- Returns the part of an amount of a run that an item wastes: the share of the item and, in a completed run, only the
-- share of its failed pieces.
create or replace function waste_of(amount numeric, status text, low numeric, high numeric, total numeric, failed int,
	quantity int)
returns numeric language sql immutable as $$
	select case when status = 'completed' then rounded_quotient(share_of(amount, low, high, total) * failed, quantity)
		else share_of(amount, low, high, total) end
$$;

-- Returns the grams and the cost of a run's filament: a row for each material type or, if by_material is false, one
-- row. own_grams are the grams of the row, grams are the sum up to the row, and all_grams are the sum of all rows, so
-- that share_of can divide an amount among the rows; the same holds for the costs. Costs include only materials whose
-- price is known, and are null without such a material; unpriced are the grams of the row without a price. The prices
-- of an ended run are frozen.
create or replace function run_filament(run uuid, by_material boolean)
returns table (material_type text, own_grams numeric, grams numeric, all_grams numeric, own_cost numeric, cost numeric,
	all_cost numeric, purge numeric, purge_cost numeric, unpriced numeric)
language sql stable as $$
	select m.material_type, m.grams, sum(m.grams) over w, sum(m.grams) over (), m.cost, sum(m.cost) over w,
		sum(m.cost) over (), m.purge, m.purge_cost, m.unpriced
	from (
		select m.material_type, coalesce(sum(m.grams), 0) as grams,
			sum(rounded_quotient(m.grams * m.price, 1)) filter (where m.grams > 0) as cost,
			sum(m.purge) as purge, sum(rounded_quotient(m.purge * m.price, 1)) filter (where m.purge > 0) as purge_cost,
			coalesce(sum(m.grams) filter (where m.price is null), 0) as unpriced
		from (
			select case when by_material then s.material_type end as material_type, x.actual_weight_grams as grams,
				x.actual_purge_grams as purge, x.cost_per_gram as price
			from run_materials x
			join spools s on s.tenant_id = x.tenant_id and s.id = x.spool_id
			where x.run_id = run and (x.actual_weight_grams > 0 or x.actual_purge_grams > 0)
		) m
		group by m.material_type
	) m
	window w as (order by m.material_type)
$$;

-- Returns the waste of a completed run: the part of its cost, or null if the cost is unknown, and the part of its
-- filament in millionths of a millionth. It is the share of each item's failed pieces.
create or replace function completed_waste(run uuid, spent numeric, out cost numeric, out parts bigint)
language sql stable as $$
	select case when spent is not null
			then coalesce(sum(rounded_quotient(share_of(spent, s.low, s.high, s.total) * n.failed, s.quantity)), 0) end,
		least(round(coalesce(sum((s.high - s.low) / s.total * n.failed / s.quantity), 0) * 1000000000000),
			1000000000000)::bigint
	from run_shares(run) s
	cross join lateral run_item_pieces('completed', s.quantity, s.successful_quantity, s.failed_quantity) n
	where n.failed > 0
$$;

-- Returns the hours between the start and the end of a run, or null if they are not plausible, because the start or
-- the end was recorded late. Hours are not plausible if they are less than a minute, more than 100,000 hours or, in
-- a completed run, less than a tenth of the estimate.
create or replace function plausible_hours(status text, started timestamptz, ended timestamptz, estimate numeric)
returns numeric language sql immutable as $$
	select case when d.hours >= 1 / 60.0 and d.hours <= 100000
		and (status <> 'completed' or d.hours * 10 >= coalesce(estimate, 0)) then d.hours end
	from (select round(extract(epoch from ended - started) / 3600, 6) as hours) d
$$;

-- Returns the hours of a run that passed after a time. The hours end at the end of the run. The differences between
-- successive times add up to the hours.
create or replace function run_hours(since timestamptz, ended timestamptz, hours numeric) returns numeric
language sql immutable as $$
	select case when hours is not null
		then greatest(least(round(extract(epoch from ended - since) / 3600, 6), hours), 0) end
$$;

-- Returns the probable end of a run for a request that ends it now and sends no time: the last report of a printer, or
-- infinity if printers reported nothing. The result is null if the current time is plausible: at most twice the
-- estimate has passed since the start, or the start or the estimate is unknown.
create or replace function late_end(r production_runs) returns timestamptz language plpgsql stable as $$
begin
	return (
		select case when r.deducted_at is null and r.completed_at is null and r.actual_print_time_hours is null
				and extract(epoch from now() - r.started_at) > r.estimated_print_time_hours * 7200
				and r.estimated_print_time_hours > 0
			then coalesce((
				select max(coalesce(u.updated_at, u.created_at)) from spool_usage u
				where u.tenant_id = r.tenant_id and u.run_id = r.id and u.kind = 'printed'
					and coalesce(u.updated_at, u.created_at) > r.started_at), 'infinity') end
	);
end $$;

-- Returns the cost of a run that ends with the status and the hours of printing, in parts that add up. A part is
-- null if it is unknown. A rate of 0 makes its part 0.
--
--   filament  the grams at the price of each material, without the waste
--   waste     the filament of failed pieces; all filament of the run, unless the run is completed
--   machine   the hours at the rate of the printer, or else of the tenant
--   energy    the hours at the power of the printer, or else of the tenant
--   labour    the work on the good pieces, with their components
--
-- wasted_parts, hour_cost, power_watts, energy_kwh_cost and labour_hour_cost are values for the columns of
-- production_runs. If the run has ended before, the prices are the run's stored prices, or else the current prices.
create or replace function run_cost(run uuid, status text, hours numeric)
returns table (filament numeric, waste numeric, machine numeric, energy numeric, labour numeric, wasted_parts bigint,
	hour_cost numeric, power_watts numeric, energy_kwh_cost numeric, labour_hour_cost numeric)
language plpgsql stable as $$
declare
	hour_energy numeric; -- cost of the energy for an hour
	minutes numeric := 0;
	spent numeric;
begin
	select coalesce(r.hour_cost, p.hour_cost, t.machine_hour_cost),
		coalesce(r.power_watts, p.power_watts, t.machine_power_watts),
		coalesce(r.energy_kwh_cost, t.energy_kwh_cost), coalesce(r.labour_hour_cost, t.labour_hour_cost)
	into hour_cost, power_watts, energy_kwh_cost, labour_hour_cost
	from tenants t
	left join production_runs r on r.tenant_id = t.tenant_id and r.id = run
	left join printers p on p.tenant_id = t.tenant_id and p.id = r.printer_id
	where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid;
	hour_energy := case when energy_kwh_cost = 0 then 0 else energy_kwh_cost * power_watts / 1000 end;

	select case when bool_and(m.cost_per_gram is not null) is not false
			then coalesce(sum(rounded_quotient(m.actual_weight_grams * m.cost_per_gram, 1)), 0) end
	into spent
	from run_materials m where m.run_id = run and m.actual_weight_grams > 0;
	if status = 'completed' then
		select w.cost, w.parts into waste, wasted_parts from completed_waste(run, spent) w;
		if labour_hour_cost > 0 then
			with item as (
				select i.product_id, i.parts_from_stock as alone, n.good, i.labour_minutes
				from run_items i
				cross join lateral run_item_pieces(status, i.quantity, i.successful_quantity, i.failed_quantity) n
				where i.run_id = run and n.good > 0
			), product as (
				select u.id, u.alone, e.labour_minutes
				from (select distinct i.product_id as id, i.alone from item i where i.labour_minutes is null) u
				cross join lateral estimate_products(array[u.id], array[1::numeric], array[u.alone]) e
			)
			select case when bool_and(coalesce(i.labour_minutes, p.labour_minutes) is not null) is not false
				then coalesce(sum(i.good * coalesce(i.labour_minutes, p.labour_minutes)), 0) end
			into minutes
			from item i left join product p on p.id = i.product_id and p.alone = i.alone;
		end if;
		labour := case when labour_hour_cost = 0 then 0 else rounded_quotient(minutes * labour_hour_cost, 60) end;
	else
		waste := spent;
		wasted_parts := 1000000000000;
		labour := 0; -- no good pieces
	end if;
	filament := spent - waste;
	machine := case when hour_cost = 0 then 0 else rounded_quotient(hours * hour_cost, 1) end;
	energy := case when hour_energy = 0 then 0 else rounded_quotient(hours * hour_energy, 1) end;
	return next;
end $$;

-- Returns the expected cost of one good piece of each product in parts: with its components, unless alone is true. A
-- part is null if it is unknown.
--
--   filament  the stored total_cost, or material_cost, if it is complete
--   machine   the estimated print time at the rate of the tenant
--   energy    the estimated print time at the power of the tenant
--   labour    the work
--   failures  the filament, machine and energy of the failed pieces for each good piece. If f of 100 pieces fail,
--             f / (100 - f) pieces fail for each good piece.
--
-- force_generic_plan: planning takes longer than running, also in explode_pieces and estimate_products.
create or replace function product_costs(ids uuid[], alone boolean default false)
returns table (id uuid, filament numeric, machine numeric, energy numeric, labour numeric, failures numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	tenant record;
begin
	select t.labour_hour_cost, t.machine_hour_cost, t.failure_rate_percent, t.failure_rate_measured,
		case when t.energy_kwh_cost = 0 then 0 else t.energy_kwh_cost * t.machine_power_watts end as energy
	into tenant from tenants t where t.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid;
	return query
		select c.id, c.filament, c.machine, c.energy, c.labour,
			case when o.bad = 0 then 0
				else rounded_quotient((c.filament + c.machine + c.energy) * o.bad, nullif(o.good, 0)) end
		from (
			select u.id, p.product,
				case when p.complete then p.cost end as filament,
				case when tenant.machine_hour_cost = 0 then 0
					else rounded_quotient(e.minutes * tenant.machine_hour_cost, 60) end as machine,
				case when tenant.energy = 0 then 0 else rounded_quotient(e.minutes * tenant.energy, 60000) end as energy,
				case when tenant.labour_hour_cost = 0 then 0
					else rounded_quotient(e.labour_minutes * tenant.labour_hour_cost, 60) end as labour
			from unnest(ids) u (id)
			cross join lateral (
				select p.id as product, case when alone then p.material_cost else p.total_cost end as cost,
					p.costs_complete or alone and not exists (
						select from product_materials m where m.product_id = p.id and m.is_required and m.cost is null) as complete
				from products p where p.id = u.id
			) p
			cross join lateral estimate_products(array[u.id], array[1::numeric], array[alone]) e
		) c
		left join lateral measured_failures(c.product) m on tenant.failure_rate_measured
		cross join lateral (
			select case when m.good + m.failed > 0 then m.failed else tenant.failure_rate_percent end as bad,
				case when m.good + m.failed > 0 then m.good else 100 - tenant.failure_rate_percent end as good
		) o;
end $$;

-- Returns the numbers of good and failed pieces of a product in runs that complete or fail has ended in the last 90
-- days. It reads the newest 1,000 items of runs with the product.
create or replace function measured_failures(product uuid) returns table (good bigint, failed bigint)
language sql stable as $$
	select sum(n.good), sum(n.failed)
	from (
		select i.* from run_items i where i.product_id = product
		order by i.run_id desc limit 1000
	) i
	join production_runs r on r.id = i.run_id
	cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
	where r.ended_at > now() - interval '90 days'
$$;

-- Returns the sum of the amounts that are not null, or null if all amounts are null.
create or replace function known_sum(amounts numeric[]) returns numeric language sql immutable as $$
	select sum(p.amount) from unnest(amounts) p (amount)
$$;

-- Returns the names of the parts whose amounts are null.
create or replace function unknown_parts(names text[], amounts numeric[]) returns text[] language sql immutable as $$
	select coalesce(array_agg(p.name order by p.n), '{}')
	from unnest(names, amounts) with ordinality p (name, amount, n) where p.amount is null
$$;

-- Returns the names of the parts that are known for fewer than all rows.
create or replace function incomplete_parts(names text[], known bigint[], all_rows bigint) returns text[]
language sql immutable as $$
	select coalesce(array_agg(p.name order by p.n), '{}')
	from unnest(names, known) with ordinality p (name, known, n) where p.known < all_rows
$$;
