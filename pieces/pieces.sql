-- Makes the ledger of pieces say what a run has produced: the good pieces of its items, by run_item_pieces. It adds
-- entries for the differences only, so that it can run at any time and any number of times. The first entry of an item
-- has the kind produced, later ones the kind corrected.
--
-- An item with parts_from_stock also uses the direct components of its good pieces. Later changes of the number of
-- good pieces change the used pieces in proportion, also if the product has other components then.
--
-- The good pieces cost the share of the item in the cost of the run, if the run has ended and all parts of its cost
-- are known, and what the used components cost. If only this cost changes later, an entry without pieces has the
-- difference.
--
-- The caller has locked the run, as every transaction does that changes the status or the items of a run: another one
-- with the same run has ended then. A run that was deleted has no row.
create or replace function settle_run_pieces(run uuid) returns void language plpgsql as $$
declare
	item record;
	part record;
	change numeric; -- of the cost of the good pieces; null if unknown
	back bigint; -- pieces that come back, but were not in stock, or had no known cost, when they went out
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

	for item in
		with good as materialized (
			select i.id, i.product_id, i.parts_from_stock, n.good
			from run_items i
			join production_runs r on r.id = i.run_id
			cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
			where i.run_id = run
		), had as materialized (
			select e.run_item_id as id, e.product_id, sum(e.pieces - e.shortfall) as pieces, sum(e.shortfall) as short,
				case when count(*) = count(e.cost) then sum(e.cost) end as cost
			from piece_entries e
			where e.run_id = run and e.kind in ('produced', 'corrected')
			group by e.run_item_id, e.product_id
		)
		select coalesce(g.id, h.id) as id, coalesce(g.product_id, h.product_id) as product_id,
			coalesce(g.good, 0) as good, coalesce(h.pieces, 0) as had, coalesce(h.short, 0) as short,
			h.id is not null as known, coalesce(g.parts_from_stock, false) as takes, l.cost,
			exists (
				select from piece_entries x
				where x.run_id = run and x.run_item_id = coalesce(g.id, h.id) and x.kind = 'used'
				group by x.product_id having sum(x.pieces) <> 0
			) as used,
			case when h.id is null then 0 else h.cost end as had_cost
		from good g full join had h on h.id = g.id and h.product_id = g.product_id
		left join (
			select x.item, x.filament + x.waste + x.machine + x.energy + x.labour as cost from run_lines(run) x
		) l on l.item = g.id
		order by coalesce(g.good, 0) > coalesce(h.pieces, 0), coalesce(g.id, h.id)
	loop
		continue when item.good = item.had
			and (item.good = 0 or (item.cost is null or item.had_cost is null) and item.takes = item.used);
		for part in
			select c.id, coalesce(u.pieces, 0) as had, u.value, u.valued, case
				when not item.takes then 0
				when item.had > 0 and item.used then round(coalesce(u.pieces, 0)::numeric * item.good / item.had)
				else item.good * c.quantity end as pieces
			from (
				select coalesce(d.component_product_id, e.product_id) as id, coalesce(d.quantity, 0) as quantity
				from (select * from product_components d where d.product_id = item.product_id) d
				full join (
					select distinct x.product_id from piece_entries x
					where x.run_id = run and x.run_item_id = item.id and x.kind = 'used'
				) e on e.product_id = d.component_product_id
			) c
			left join (
				select x.product_id, -sum(x.pieces) as pieces, -sum(x.value) as value,
					-sum(greatest(x.on_hand, 0) - greatest(x.on_hand - x.pieces, 0) - x.unvalued) as valued
				from piece_entries x
				where x.run_id = run and x.run_item_id = item.id and x.kind = 'used'
				group by x.product_id
			) u on u.product_id = c.id
			order by c.id
		loop
			if part.pieces <> part.had then
				perform assemble_plates(part.id, (part.pieces - part.had)::bigint, null, null);
				-- Components that come back have what they cost when they went out, and those without a known cost come
				-- back first.
				back := case when part.pieces < part.had then least(part.had - part.pieces, part.had - part.valued) end;
				perform move_pieces(part.id, 'used', (part.had - part.pieces)::bigint,
					round(part.value * (part.had - part.pieces - back) / nullif(part.valued, 0), 6),
					p_run => run, p_item => item.id, p_unvalued => back);
			end if;
		end loop;
		change := case when item.good = 0 then 0 else item.cost end - item.had_cost;
		if change is not null and item.good > 0 and item.takes then
			select case when count(*) = count(e.cost) then change - coalesce(sum(e.cost), 0) end into change
			from piece_entries e where e.run_id = run and e.run_item_id = item.id and e.kind = 'used';
		end if;
		continue when item.good = item.had and coalesce(change, 0) = 0;
		-- Pieces that a correction took away, and that were not in stock any more, come back first.
		back := case when item.good > item.had then least(item.short, item.good - item.had) else 0 end;
		perform move_pieces(item.product_id, case when item.known then 'corrected' else 'produced' end,
			item.good - item.had - back, change, change is not null and item.good <= item.had, p_run => run,
			p_item => item.id, p_shortfall => back,
			p_of => case when item.good > item.had then item.good - item.had else item.good end,
			p_left => item.good - coalesce((
				select o.delivered from run_items i cross join lateral order_item_own(i.order_item_id) o
				where i.id = item.id and o.item = item.id), 0));
	end loop;
end $$;

-- Settles the pieces of the run of a changed row, at the commit: once for successive rows of a run.
create or replace function run_pieces_changed() returns trigger language plpgsql as $$
declare
	run uuid;
begin
	if tg_table_name = 'production_runs' then
		run := case when tg_op = 'DELETE' then old.id else new.id end;
	else
		run := case when tg_op = 'DELETE' then old.run_id else new.run_id end;
		-- A run that this transaction has created, such as a planned one, has no pieces before it is completed, and no
		-- other transaction has seen it.
		if tg_op = 'INSERT' and exists (
			select from production_runs r where r.id = run and r.created_at = now() and r.status <> 'completed') then
			return null;
		end if;
	end if;
	if current_setting('app.settled_run', true) is distinct from run::text then
		perform settle_run_pieces(run);
		perform set_config('app.settled_run', run::text, true);
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
		('production_runs', 'update of status or delete'),
		('run_items', 'insert or delete or update of product_id, parts_from_stock, quantity,
			successful_quantity, failed_quantity')
	loop
		if not exists (select from pg_trigger where tgrelid = name::regclass and tgname = 'pieces_changed') then
			execute format('create constraint trigger pieces_changed after %s on %I
				deferrable initially deferred for each row execute function run_pieces_changed()', events, name);
		end if;
	end loop;
end $$;

-- Takes an entry of the ledger back, by an entry with the opposite pieces; those of an assembly all together. Changes
-- nothing and returns a problem if that is not possible:
--
--   NOT_FOUND  there is no such entry
--   REVERSAL   the entry takes another one back
--   RUN        a run has caused the entry
--   REVERSED   the entry was taken back
--   RETURNED   the entry is a delivery, and the customer has sent pieces back
--   MISSING    pieces that would leave are not in stock; detail names them
create or replace function reverse_piece_entry(p_entry uuid, p_reason text, out problem text, out detail text)
language plpgsql as $$
declare
	first piece_entries;
	entry piece_entries;
	ids uuid[];
begin
	select * into first from piece_entries e where e.id = p_entry;
	problem := case when first.id is null then 'NOT_FOUND' when first.reverses is not null then 'REVERSAL'
		when first.run_id is not null then 'RUN' end;
	if problem is not null then
		detail := first.run_id::text;
		return;
	end if;
	if first.order_id is not null then
		perform lock_order_pieces(first.order_id);
	end if;
	ids := array(select e.id from piece_entries e
		where e.id = p_entry or e.assembly_id = first.assembly_id and e.reverses is null);
	perform lock_pieces(array(select e.product_id from piece_entries e where e.id = any (ids)));
	if exists (select from piece_entries e where e.reverses = any (ids)) then
		problem := 'REVERSED';
		return;
	end if;
	select missing_pieces(array_agg(e.product_id), array_agg(e.pieces::bigint)) into detail
	from piece_entries e where e.id = any (ids);
	if detail is not null then
		problem := 'MISSING';
		return;
	end if;
	if first.kind in ('delivered', 'returned')
			and not take_back_delivered(first.order_item_id, first.shortfall - first.pieces) then
		problem := 'RETURNED';
		return;
	end if;
	for entry in select * from piece_entries e where e.id = any (ids) order by e.product_id loop
		perform reverse_pieces(entry, p_reason);
	end loop;
end $$;
