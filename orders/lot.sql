-- Returns where the filament of a lot went: a row for each item of a run that used the filament or will use it, and
-- for each item of an order that has, or may have, got pieces printed from it.
--
-- Pieces that a run printed for an order belong to that order. The ledger does not tell other pieces apart: every
-- order that got pieces of the same product after the first of the runs, or of a kit that contains the product, may
-- have got pieces of the lot. The rows of these orders have no run.
create or replace function pieces_of_lot(lot text) returns table (run_id uuid, product_id uuid, quantity int, good int,
	order_id uuid, order_item_id uuid)
language sql stable as $$
	with recursive uses as materialized (
		select distinct u.run_id from runs_of_lot(lot) u
	), printed as materialized (
		select r.id as run_id, i.product_id, i.quantity, n.good, o.order_id, i.order_item_id, r.ended_at
		from uses u
		join production_runs r on r.id = u.run_id
		left join run_items i on i.run_id = r.id
		left join order_items o on o.id = i.order_item_id
		left join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n on true
	), first as materialized (
		select min(p.ended_at) as at from printed p where p.good > 0
	), made (product_id) as (
		select p.product_id from printed p where p.good > 0
		union
		select n.product_id
		from made m cross join first f
		cross join lateral (
			select k.product_id
			from piece_entries e join piece_entries k on k.assembly_id = e.assembly_id and k.pieces > 0
			where e.product_id = m.product_id and e.kind = 'assembled' and e.pieces < 0 and e.created_at >= f.at
			union all
			select i.product_id
			from piece_entries e join run_items i on i.id = e.run_item_id
			where e.product_id = m.product_id and e.kind = 'used' and e.created_at >= f.at
		) n
	)
	select p.run_id, p.product_id, p.quantity, p.good, p.order_id, p.order_item_id from printed p
	union all
	select distinct null::uuid, e.product_id, null::int, null::int, e.order_id, e.order_item_id
	from made m cross join first f
	join piece_entries e on e.product_id = m.product_id and e.kind = 'delivered' and e.created_at >= f.at
	where e.order_item_id not in (select p.order_item_id from printed p where p.order_item_id is not null)
$$;
