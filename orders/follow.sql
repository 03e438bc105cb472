-- Changes the status of the orders whose items a run prints: to in_production when the run has started, and to done when
-- everything is produced. It never changes the status back, and leaves done and cancelled orders as they are. Production
-- calls it in each transaction that changes the status of a run or the pieces of its items.
--
-- The orders are locked first, in the order of their ids. The statement after that sees the runs of the transactions that
-- it waited for: the last of several concurrent runs finds everything produced.
create or replace function follow_run(run uuid) returns void language plpgsql as $$
declare
	run_status text;
	linked uuid[];
begin
	select r.status into run_status from production_runs r
	where r.id = run and r.status in ('in_progress', 'paused', 'completed');
	if not found then
		return;
	end if;
	linked := array(
		select distinct o.order_id
		from run_items i
		cross join lateral (select o.order_id from order_items o where o.id = i.order_item_id offset 0) o
		where i.run_id = run and i.order_item_id is not null
		order by o.order_id);
	if cardinality(linked) = 0 then
		return;
	end if;
	perform from unnest(linked) with ordinality u (id, n)
	cross join lateral (select from orders o where o.id = u.id for no key update) o;

	update orders o set status = n.status, updated_at = now()
	from (
		select u.id, case when exists (
				select from order_items i cross join lateral order_item_pieces(i.id) p
				where i.order_id = u.id and p.produced < i.quantity
			) then 'in_production' else 'done' end as status
		from unnest(linked) u (id)
	) n
	where o.id = n.id and o.is_open and o.status <> n.status;
end $$;
