-- What each entry of the ledger of pieces has changed the value of a product's stock by, and the stock after it. The
-- columns are the running sums of product_pieces, as on_hand is.
alter table piece_entries
	-- That came into stock; negative: went out.
	add column value numeric(15,6) not null default 0 check (value between -999999999 and 999999999),
	add column unvalued int not null default 0, -- of pieces, those without a known cost
	-- After the entry: the value of the pieces in stock, and the number of those without a known cost.
	add column stock_value numeric(15,6) not null default 0 check (stock_value between 0 and 999999999),
	add column stock_unvalued int not null default 0 check (stock_unvalued >= 0);

-- As before, with the new columns.
create or replace function start_piece_ledger() returns void language plpgsql as $$
begin
	insert into piece_entries (id, product_id, kind, pieces, unvalued, on_hand, stock_unvalued, run_id, run_item_id,
		created_at)
	select gen_random_uuid(), i.product_id, 'produced', i.good, i.good, i.on_hand, i.on_hand, i.run_id, i.id, i.ended
	from (
		select i.*, sum(i.good) over (partition by i.product_id order by i.ended, i.id
			rows between unbounded preceding and current row) as on_hand
		from (
			select i.id, i.product_id, i.run_id,
				coalesce(i.successful_quantity, i.quantity - coalesce(i.failed_quantity, 0)) as good,
				coalesce(r.ended_at, r.completed_at, r.updated_at) as ended
			from run_items i join production_runs r on r.id = i.run_id
			where r.status = 'completed'
		) i
		where i.good > 0
	) i;

	insert into piece_entries (id, product_id, kind, pieces, unvalued, on_hand, stock_unvalued, reason)
	select gen_random_uuid(), n.product_id, 'corrected', -n.gone, -n.gone, n.rest, n.rest,
		'Pieces that were printed before the farm kept stock of pieces, except those for open orders'
	from (
		select e.product_id, coalesce(sum(e.pieces) filter (where not coalesce(o.is_open, false)), 0) as gone,
			coalesce(sum(e.pieces) filter (where o.is_open), 0) as rest
		from piece_entries e
		join run_items i on i.id = e.run_item_id
		left join order_items x on x.id = i.order_item_id and x.withdrawn_at is null
		left join orders o on o.id = x.order_id
		group by e.product_id
	) n
	where n.gone > 0;

	insert into product_pieces (product_id, on_hand, unvalued)
	select e.product_id, sum(e.pieces), sum(e.pieces) from piece_entries e group by e.product_id;
end $$;

-- Entries that exist already get the sums of their costs, and the newest of each product what is in stock.
do $$
declare
	tenant uuid;
begin
	-- The policies of these tables otherwise hide the tenants from their owner.
	alter table tenants no force row level security;
	for tenant in select t.tenant_id from tenants t loop
		perform set_config('app.tenant_id', tenant::text, true);
		update piece_entries e set value = n.value, unvalued = n.unvalued, stock_value = greatest(n.stock_value, 0),
			stock_unvalued = greatest(n.stock_unvalued, 0)
		from (
			select e.id, e.value, e.unvalued, case when e.newest then s.value else e.stock_value end as stock_value,
				case when e.newest then s.unvalued else e.stock_unvalued end as stock_unvalued
			from (
				select e.id, e.product_id, e.value, e.unvalued,
					sum(e.value) over past as stock_value, sum(e.unvalued) over past as stock_unvalued,
					row_number() over (partition by e.product_id order by e.created_at desc, e.id desc) = 1 as newest
				from (
					select e.*, coalesce(e.cost, 0) as value, case when e.cost is null then e.pieces else 0 end as unvalued
					from (select id, product_id, cost, pieces, created_at from piece_entries) e
				) e
				window past as (partition by e.product_id order by e.created_at, e.id
					rows between unbounded preceding and current row)
			) e
			join product_pieces s on s.product_id = e.product_id
		) n
		where e.id = n.id;
	end loop;
	perform set_config('app.tenant_id', '', true);
	alter table tenants force row level security;
end $$;
