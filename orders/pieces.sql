-- Returns the items of a run whose pieces are in the ledger or should be: their good pieces and the cost of these, and
-- what the ledger has (had, and whether there is an entry: known). Of these, unknown pieces have no known cost, and the
-- others have the cost had_cost; valued pieces came into stock with a known cost. takes reports whether the item takes
-- components from stock, and used whether the ledger has such components. at is when the pieces count, or null for now.
-- With p_none, no pieces are good. Pieces that leave the stock come first.
create or replace function run_pieces(run uuid, ended timestamptz, p_none boolean)
returns table (id uuid, product_id uuid, good int, had bigint, known boolean, takes boolean, cost numeric,
	used boolean, unknown bigint, had_cost numeric, valued bigint, at timestamptz)
language plpgsql stable as $$
#variable_conflict use_column
begin
	return query
		with good as materialized (
			select i.id, i.product_id, i.parts_from_stock, n.good
			from run_items i
			join production_runs r on r.id = i.run_id
			cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
			where i.run_id = run and not p_none
		), had as materialized (
			select e.run_item_id as id, e.product_id, sum(e.pieces - e.shortfall) as pieces,
				coalesce(sum(e.pieces - e.shortfall) filter (where e.cost is null), 0) as unknown,
				coalesce(sum(e.cost), 0) as cost, sum(valued_change(e)) as valued,
				(array_agg(coalesce(e.happened_at, e.created_at) order by e.created_at desc, e.id desc))[1] as at
			from piece_entries e
			where e.run_id = run and e.kind in ('produced', 'corrected')
			group by e.run_item_id, e.product_id
		)
		select coalesce(g.id, h.id) as id, coalesce(g.product_id, h.product_id) as product_id,
			coalesce(g.good, 0) as good, coalesce(h.pieces, 0) as had,
			h.id is not null as known, coalesce(g.parts_from_stock, false) as takes, l.cost,
			exists (
				select from piece_entries x
				where x.run_id = run and x.run_item_id = coalesce(g.id, h.id) and x.kind = 'used'
				group by x.product_id having sum(x.pieces) <> 0
			) as used,
			coalesce(h.unknown, 0) as unknown, coalesce(h.cost, 0) as had_cost, coalesce(h.valued, 0) as valued,
			-- Pieces recorded within a minute after the end keep the time of the record; null means now.
			case when ended is null or h.at >= ended and h.at < ended + interval '1 minute' then h.at
				when ended < now() then ended end as at
		from good g full join had h on h.id = g.id and h.product_id = g.product_id
		left join (
			select x.item, x.filament + x.waste + x.machine + x.energy + x.labour as cost from run_lines(run) x
		) l on l.item = g.id
		order by coalesce(g.good, 0) > coalesce(h.pieces, 0), coalesce(g.id, h.id);
end $$;

-- Records in the ledger of pieces the components that an item of a run uses: those of p_good pieces of the product, if
-- it takes them, in place of those of p_had pieces. entry has the columns of the entries that all of them share. p_used
-- reports whether the ledger has components of the item.
create or replace function settle_run_parts(
	entry piece_entries, p_product uuid, p_good int, p_had bigint, p_takes boolean, p_used boolean
) returns void language plpgsql as $$
declare
	part record;
	back bigint; -- pieces that come back, but had no known cost when they went out
begin
	for part in
		select c.id, coalesce(u.pieces, 0) as had, u.value, u.valued, case
			when not p_takes then 0
			when p_had > 0 and p_used then round(coalesce(u.pieces, 0)::numeric * p_good / p_had)
			else p_good * c.quantity end as pieces
		from (
			select coalesce(d.component_product_id, e.product_id) as id, coalesce(d.quantity, 0) as quantity
			from (select * from product_components d where d.product_id = p_product) d
			full join (
				select distinct x.product_id from piece_entries x
				where x.run_id = entry.run_id and x.run_item_id = entry.run_item_id and x.kind = 'used'
			) e on e.product_id = d.component_product_id
		) c
		left join (
			select x.product_id, -sum(x.pieces) as pieces, -sum(x.value) as value,
				-sum(valued_change(x)) as valued
			from piece_entries x
			where x.run_id = entry.run_id and x.run_item_id = entry.run_item_id and x.kind = 'used'
			group by x.product_id
		) u on u.product_id = c.id
		order by c.id
	loop
		if part.pieces <> part.had then
			if not exists (select from count_after(part.id, entry.happened_at)) then
				perform assemble_plates(part.id, (part.pieces - part.had)::bigint, null, null);
			end if;
			-- Components come back at the cost at which they went out, and those without a known cost come back first.
			back := case when part.pieces < part.had then least(part.had - part.pieces, part.had - part.valued) end;
			entry.product_id := part.id;
			entry.kind := 'used';
			entry.pieces := part.had - part.pieces;
			entry.unvalued := back;
			entry.cost := round(part.value * (part.had - part.pieces - back) / nullif(part.valued, 0), 6);
			perform move_pieces(entry);
		end if;
	end loop;
end $$;

-- Returns how many of p_pieces pieces of an item of a run the order does not have yet.
create or replace function undelivered(run_item uuid, p_pieces bigint) returns bigint language sql stable as $$
	select greatest(p_pieces - coalesce((
		select o.delivered from run_items i cross join lateral order_item_own(i.order_item_id) o
		where i.id = run_item and o.item = run_item), 0), 0)
$$;

-- Gives p_unknown pieces of an item of a run, which had no known cost, the cost p_cost: one entry takes the pieces back
-- without a cost, and a second one adds them again with the cost. entry has the other columns of both. At most p_left
-- of the pieces are in stock, and as many of the stock's pieces without a known cost get their part of the cost.
create or replace function settle_run_cost(entry piece_entries, p_unknown bigint, p_left bigint, p_cost numeric)
returns void language plpgsql as $$
declare
	there bigint;
begin
	select least(p_unknown, p_left, s.unvalued) into there from product_pieces s where s.product_id = entry.product_id;
	entry.pieces := -there;
	entry.unvalued := -there;
	entry.shortfall := p_unknown - there;
	perform move_pieces(entry);
	entry.pieces := there;
	entry.unvalued := null;
	entry.shortfall := there - p_unknown;
	entry.cost := p_cost;
	perform move_pieces(entry, p_of => p_unknown);
end $$;

-- Records in the ledger of pieces what a run has produced: the good pieces of its items, by run_item_pieces. It only
-- adds entries for differences, so it can run at any time, and any number of times. The first entry of an item has the
-- kind produced, later entries have the kind corrected.
--
-- An item with parts_from_stock also uses the direct components of its good pieces. Later changes of the number of
-- good pieces change the used pieces in proportion, even if the product has other components by then.
--
-- The cost of the good pieces is the share of the item in the cost of the run, plus the cost of the used components.
-- It is known if the run has ended and all parts of its cost are known. If only the cost changes later, an entry
-- without pieces has the difference. If it becomes known later, settle_run_cost gives it to the pieces.
--
-- Each request that changes the status or the items of a run calls it after the change; see Orders.Settle in
-- production. The request has locked the run, so no concurrent request changes it. A deleted run has no row.
--
-- Entries count as of the end of the run. If the end changes, and a product was counted between the old and the new
-- end, the pieces are taken back at the old time and added at the new time. With p_none, all pieces are taken back.
create or replace function settle_run_pieces(run uuid, p_none boolean default false) returns void
language plpgsql as $$
declare
	ended timestamptz; -- the end of a completed run
	item record;
	total numeric; -- the cost of the good pieces; null if unknown
	change numeric; -- of the cost in the ledger
	gone bigint; -- pieces without a known cost that leave
	back bigint; -- pieces that come back, but were not in stock when they went out
	entry piece_entries;
begin
	if not exists (
		select from run_items i join production_runs r on r.id = i.run_id where i.run_id = run and r.status = 'completed')
			and not exists (select from piece_entries e where e.run_id = run) then
		return;
	end if;
	perform lock_pieces(with_plates(array(
		select i.product_id from run_items i where i.run_id = run
		union
		select e.product_id from piece_entries e where e.run_id = run
		union
		select c.component_product_id from run_items i join product_components c on c.product_id = i.product_id
		where i.run_id = run and i.parts_from_stock)));
	select coalesce(r.ended_at, r.completed_at) into ended
	from production_runs r where r.id = run and r.status = 'completed' and not p_none;
	if exists (
		select from (
			select distinct on (e.run_item_id, e.product_id) e.product_id, coalesce(e.happened_at, e.created_at) as at
			from piece_entries e where e.run_id = run order by e.run_item_id, e.product_id, e.created_at desc, e.id desc
		) e
		cross join lateral count_after(e.product_id, least(e.at, ended)) c
		where (e.at < ended or e.at >= ended + interval '1 minute') and c.created_at < greatest(e.at, ended)
	) then
		perform settle_run_pieces(run, true);
	end if;

	for item in select * from run_pieces(run, ended, p_none) loop
		continue when item.good = item.had and (item.good = 0 or item.cost is null and item.takes = item.used);
		entry := null;
		entry.run_id := run;
		entry.run_item_id := item.id;
		entry.happened_at := item.at;
		-- The newest entry of a removed item names the item of the order that it printed.
		select i.order_id, i.id into entry.order_id, entry.order_item_id
		from order_items i
		where i.id = case when exists (select from run_items x where x.id = item.id)
			then (select x.order_item_id from run_items x where x.id = item.id)
			else (select e.order_item_id from piece_entries e where e.run_id = run and e.run_item_id = item.id
				order by e.created_at desc, e.id desc limit 1) end;
		perform settle_run_parts(entry, item.product_id, item.good, item.had, item.takes, item.used);
		entry.product_id := item.product_id;
		entry.kind := case when item.known then 'corrected' else 'produced' end;
		total := case when item.good = 0 then 0 else item.cost end;
		if total is not null and item.good > 0 and item.takes then
			select case when count(*) = count(e.cost) then total - coalesce(sum(e.cost), 0) end into total
			from piece_entries e where e.run_id = run and e.run_item_id = item.id and e.kind = 'used';
		end if;
		-- Pieces without a known cost leave first.
		gone := least(item.unknown, item.had - item.good);
		if gone > 0 then
			entry.pieces := -gone;
			entry.unvalued := -gone;
			perform move_pieces(entry);
			entry.unvalued := null;
			item.had := item.had - gone;
			item.unknown := item.unknown - gone;
		end if;
		if item.unknown > 0 and item.good > 0 and abs(total) <= 999999999 then
			change := round(total * item.had / item.good, 6) - item.had_cost;
			perform settle_run_cost(entry, item.unknown, undelivered(item.id, item.had), change);
			item.had_cost := item.had_cost + change;
		end if;
		change := case when total is null and item.good < item.had
			then -round(item.had_cost * (item.had - item.good) / item.had, 6) else total - item.had_cost end;
		continue when item.good = item.had and coalesce(change, 0) = 0;
		-- Pieces that an earlier correction took away although they were no longer in stock come back first, also those
		-- of an item that was removed from the run.
		select greatest(least(coalesce(sum(e.shortfall), 0), item.good - item.had), 0) into back
		from piece_entries e
		where e.run_id = run and e.product_id = item.product_id and e.kind in ('produced', 'corrected');
		entry.pieces := item.good - item.had - back;
		entry.shortfall := -back;
		entry.cost := change;
		perform move_pieces(entry,
			p_of => case when item.good > item.had then item.good - item.had else item.good end,
			p_left => case when item.good = item.had
				then greatest(least(undelivered(item.id, item.good), item.valued), 0) end);
	end loop;
end $$;
