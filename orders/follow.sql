-- Changes the status of open orders (received, in_production) to what their runs have achieved: in_production when
-- a run that prints one of their items has started, and done when everything is produced. It never changes a status
-- back, and leaves done and cancelled orders as they are.
--
-- The orders are locked first, in the order of their ids. The statement after that sees the runs of the transactions
-- that it waited for: the last of several concurrent runs finds everything produced.
create or replace function settle_orders(ids uuid[]) returns void language plpgsql as $$
begin
	perform from (select distinct u.id from unnest(ids) u (id) order by u.id) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	update orders o set status = n.status, updated_at = now()
	from (
		select u.id, case when bool_and(p.produced >= i.quantity) then 'done'
			when bool_or(exists (
				select from run_items r
				cross join lateral (select s.status from production_runs s where s.id = r.run_id offset 0) s
				where r.order_item_id = i.id and s.status in ('in_progress', 'paused', 'completed')
			)) then 'in_production' end as status
		from (select distinct u.id from unnest(ids) u (id)) u
		cross join lateral (select i.id, i.quantity from order_items i where i.order_id = u.id offset 0) i
		cross join lateral order_item_pieces(i.id) p
		group by u.id
	) n
	where o.id = n.id and o.is_open and o.status <> n.status;
end $$;

-- Calls settle_orders for the orders that a run prints items of. Production calls it in each transaction that changes
-- the status of a run, or adds or changes items (see Runs in definitions.go).
create or replace function follow_run(run uuid) returns void language plpgsql as $$
declare
	linked uuid[] := array(
		select o.order_id
		from run_items i
		cross join lateral (select o.order_id from order_items o where o.id = i.order_item_id offset 0) o
		where i.run_id = run and i.order_item_id is not null);
begin
	if cardinality(linked) > 0 then
		perform settle_orders(linked);
	end if;
end $$;

-- Locks the orders of the items that a run prints, and of further items, in the order of the orders' ids, as
-- settle_orders does. Production calls it before it links items of the run to items of orders: those items cannot be
-- removed then, and their orders keep their status, until the transaction ends.
create or replace function lock_orders(run uuid, items uuid[]) returns void language plpgsql as $$
begin
	perform from (
		select distinct o.order_id as id
		from (
			select i.order_item_id as id from run_items i where i.run_id = run and i.order_item_id is not null
			union all
			select unnest(items)
		) i
		cross join lateral (select o.order_id from order_items o where o.id = i.id offset 0) o
		order by o.order_id
	) u
	cross join lateral (select from orders o where o.id = u.id for no key update) o;
end $$;
