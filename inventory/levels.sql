-- Returns for each stock level of the tenant the grams and the number of its spools in stock, and what open orders and
-- unfinished runs reserve of it. Reservations name a material and a colour; a level with a brand is reserved what spools
-- of other brands do not cover.
create or replace function stock_state() returns table (level uuid, remaining numeric, reserved numeric, spools bigint)
language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	types text[] := array(select distinct l.material_type from stock_levels l where l.tenant_id = tenant);
begin
	return query
		with stock as materialized (
			select s.material_type, s.color_key, s.brand_key, sum(s.remaining_weight_grams) as grams, count(*) as n
			from spools s
			where s.tenant_id = tenant and s.in_stock and not s.archived and num_nonnulls(s.hidden_at) <> 1
				and s.material_type = any (types)
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
		where l.tenant_id = tenant;
end $$;

-- Updates which stock levels of the tenant are low, and returns those that became low. A level becomes low when the
-- available grams (remaining less reserved) are below its minimum, and fine again when they reach 110 % of it.
--
-- It must be the last statement of a transaction that changes stock or reservations. It locks the levels, in the order of
-- their ids, and then reads the stock: of two concurrent transactions that together make a level low, the second one
-- waits, sees the changes of the first one, and exactly one of them returns the level. Transactions lock levels after all
-- other rows, so that they cannot deadlock.
create or replace function refresh_stock_levels() returns setof stock_levels language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	perform from stock_levels l where l.tenant_id = tenant order by l.id for no key update;
	if not found then
		return;
	end if;
	return query
		with changed as (
			update stock_levels l set low_since = case when s.is_low then now() end
			from (
				select n.id, n.low_since is null as is_low
				from stock_levels n join stock_state() s on s.level = n.id
				where n.tenant_id = tenant and case when n.low_since is null then s.remaining - s.reserved < n.minimum_grams
					else s.remaining - s.reserved >= n.minimum_grams * 1.1 end
			) s
			where l.tenant_id = tenant and l.id = s.id
			returning l.*
		)
		select c.* from changed c where c.low_since is not null;
end $$;

-- Refreshes the stock levels when the transaction commits, at its first event: all its statements have run then.
-- Tenants without levels pay for one look into their index.
create or replace function stock_changed() returns trigger language plpgsql as $$
begin
	if current_setting('app.stock_refreshed', true) = 'yes' then
		return null;
	end if;
	perform set_config('app.stock_refreshed', 'yes', true);
	if exists (select from stock_levels l where l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) then
		perform announce_low_stock();
	end if;
	return null;
end $$;

-- Refreshes the stock levels, and sends the event inventory.low_stock for each that became low. Returns their number.
create or replace function announce_low_stock() returns bigint language plpgsql as $$
declare
	low uuid[];
begin
	select array_agg(r.id order by r.id) into low from refresh_stock_levels() r;
	if low is not null and has_webhook('inventory.low_stock') then
		perform emit_event('inventory.low_stock', json_build_object(
			'id', l.id, 'material_type', l.material_type, 'color', l.color, 'brand', l.brand,
			'minimum_grams', trim_scale(l.minimum_grams),
			'available_grams', trim_scale(s.remaining - s.reserved),
			'missing_grams', trim_scale(l.minimum_grams * 1.1 - s.remaining + s.reserved),
			'low_since', event_time(l.low_since)))
		from stock_levels l join stock_state() s on s.level = l.id
		where l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and l.id = any (low);
	end if;
	return coalesce(cardinality(low), 0);
end $$;
