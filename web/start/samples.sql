-- Returns which rows (source) refer to which of the rows with the ids (target), among them those of tables without
-- samples.
create or replace function sample_references(ids uuid[]) returns table (source uuid, target uuid)
language plpgsql stable as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	return query
	with d as materialized (
		select u.id from unnest(ids) u (id)
	)
	select f.id, d.id from d join filaments f on f.tenant_id = tenant and f.vendor_id = d.id
	union all
	select p.id, d.id from d join spools p on p.tenant_id = tenant and p.filament_id = d.id
	union all
	select m.product_id, d.id from d join product_materials m on m.tenant_id = tenant and m.filament_id = d.id
	union all
	select c.product_id, d.id
	from d join product_components c on c.tenant_id = tenant and c.component_product_id = d.id
	union all
	select p.id, d.id from d join products p on p.tenant_id = tenant and p.variant_of = d.id
	union all
	select m.variant_id, d.id from d join variant_materials m on m.tenant_id = tenant and m.filament_id = d.id
	union all
	select i.order_id, d.id from d join order_items i on i.tenant_id = tenant and i.product_id = d.id
	union all
	select i.run_id, d.id from d join run_items i on i.tenant_id = tenant and i.product_id = d.id
	union all
	select i.run_id, d.id from d join order_items o on o.tenant_id = tenant and o.order_id = d.id
	join run_items i on i.tenant_id = tenant and i.order_item_id = o.id
	union all
	select m.run_id, d.id from d join run_materials m on m.tenant_id = tenant and m.spool_id = d.id
	union all
	select r.id, d.id from d join production_runs r on r.tenant_id = tenant and r.printer_id = d.id
	union all -- a sample spool that stays loses what samples used; see remove_samples
	select u.spool_id, d.id from d join spool_usage u on u.tenant_id = tenant and u.run_id = d.id
	where u.spool_id not in (select d.id from d)
	union all
	select u.spool_id, d.id from d join spool_usage u on u.tenant_id = tenant and u.printer_id = d.id
	where u.spool_id not in (select d.id from d)
	union all -- a run that stays keeps what printers reported for it
	select u.run_id, d.id from d join spool_usage u on u.tenant_id = tenant and u.printer_id = d.id
	where u.run_id is not null
	union all -- the pieces of a product that stays are those of its ledger
	select e.product_id, d.id from d join piece_entries e on e.tenant_id = tenant and e.run_id = d.id
	union all
	select e.product_id, d.id from d join piece_entries e on e.tenant_id = tenant and e.order_id = d.id
	union all
	select l.id, d.id from d join order_lines l on l.tenant_id = tenant and l.order_id = d.id
	union all
	select a.id, d.id from d join order_assignments a on a.tenant_id = tenant and a.product_id = d.id
	union all
	select o.shop_id, d.id from d join shop_orders o on o.tenant_id = tenant and o.order_id = d.id
	union all
	select o.tenant_id, d.id from d join file_orders o on o.tenant_id = tenant and o.order_id = d.id
	union all
	select k.id, d.id from d join api_keys k on k.tenant_id = tenant and k.printer_id = d.id
	where k.revoked_at is null
	union all -- a printer that is watched is one of the farm, with its printer_jobs and printer_state_changes; the
		-- printer_leases of another one are deleted with it, and the spool_tags of a spool with the spool
	select c.tenant_id, d.id from d join printer_connections c on c.tenant_id = tenant and c.id = d.id
	union all
	select s.tenant_id, d.id from d join printer_states s on s.tenant_id = tenant and s.id = d.id;
end $$;

-- Returns the sample data of the tenant and what becomes of it when it is removed:
--
--   * removed: the sample is deleted.
--   * made: a run or an order of the farm that consists of samples only. It is deleted with them.
--   * kept: a sample that other data of the farm refers to, directly or through other samples. It stays, and is no
--     sample any more.
create or replace function sample_plan() returns table (kind text, id uuid, name text, fate text)
language plpgsql stable as $$
#variable_conflict use_column
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	return query
	with recursive s as materialized (
		select r.id from sample_rows r where r.tenant_id = tenant
	), made_orders as materialized (
		select i.order_id as id from order_items i
		where i.tenant_id = tenant and i.product_id in (select s.id from s) and i.order_id not in (select s.id from s)
			and not exists (select from order_items o where o.tenant_id = tenant and o.order_id = i.order_id
				and o.product_id not in (select s.id from s))
		group by i.order_id
	), ordered as materialized ( -- the items of these orders, and those of samples
		select i.id from order_items i
		where i.tenant_id = tenant and i.order_id in (select s.id from s union all select m.id from made_orders m)
	), made_runs as materialized (
		select c.id from (
			select i.run_id as id from run_items i where i.tenant_id = tenant and i.product_id in (select s.id from s)
			union
			select m.run_id from run_materials m where m.tenant_id = tenant and m.spool_id in (select s.id from s)
		) c
		where c.id not in (select s.id from s)
			and not exists (select from run_items i where i.tenant_id = tenant and i.run_id = c.id
				and (i.product_id not in (select s.id from s) or i.order_item_id not in (select o.id from ordered o)))
			and not exists (select from run_materials m where m.tenant_id = tenant and m.run_id = c.id
				and m.spool_id not in (select s.id from s))
	), d as materialized (
		select s.id from s union select m.id from made_orders m union select m.id from made_runs m
	), edge (source, target) as materialized (
		select r.source, r.target from sample_references(array(select d.id from d)) r
	), kept as (
		select e.target as id from edge e where e.source not in (select d.id from d)
		union
		select e.target from kept k join edge e on e.source = k.id
	), named (kind, id, name) as (
		select 'vendor', v.id, v.name from d join vendors v on v.tenant_id = tenant and v.id = d.id
		union all
		select 'filament', f.id, concat_ws(' ', f.vendor_name, coalesce(f.name, f.material_type || ' ' || f.color))
		from d join filaments f on f.tenant_id = tenant and f.id = d.id
		union all
		select 'spool', p.id, '#' || p.number || ' ' || spool_name(p.material_type, p.material_name, p.color, p.brand)
		from d join spools p on p.tenant_id = tenant and p.id = d.id
		union all
		select 'printer', p.id, p.name from d join printers p on p.tenant_id = tenant and p.id = d.id
		union all
		select 'product', p.id, p.name from d join products p on p.tenant_id = tenant and p.id = d.id
		union all
		select 'order', o.id, coalesce(nullif(concat_ws(' ', o.reference, o.customer), ''), 'without a name')
		from d join orders o on o.tenant_id = tenant and o.id = d.id
		union all
		select 'run', r.id, coalesce((select i.quantity || ' × ' || p.name from run_items i
			join products p on p.tenant_id = tenant and p.id = i.product_id
			where i.tenant_id = tenant and i.run_id = r.id order by i.created_at, i.id limit 1), 'without products')
		from d join production_runs r on r.tenant_id = tenant and r.id = d.id
		union all
		select 'stock level', l.id, concat_ws(' ', l.material_type, l.color)
		from d join stock_levels l on l.tenant_id = tenant and l.id = d.id
	)
	select n.kind, n.id, n.name, case when k.id is not null then 'kept' when s.id is null then 'made' else 'removed' end
	from named n left join kept k on k.id = n.id left join s on s.id = n.id
	where k.id is null or s.id is not null
	order by n.kind, n.name, n.id;
end $$;

-- Removes the sample data as sample_plan says. Returns the plan, or null if other transactions use the samples at the
-- same time. The transaction must hold the locks printer_slots and catalog.
create or replace function remove_samples() returns json language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	plan json;
	gone uuid[];
	kept uuid[];
	mixed uuid[];
	types text[];
	loaded record;
	counted jsonb; -- how many of the deleted rows of each table are in the total of its list
begin
	select coalesce(json_agg(json_build_object('kind', p.kind, 'name', p.name, 'fate', p.fate)), '[]'),
		coalesce(array_agg(p.id) filter (where p.fate <> 'kept'), '{}'),
		coalesce(array_agg(p.id) filter (where p.fate = 'kept'), '{}')
	into plan, gone, kept from sample_plan() p;
	perform unmark_samples();
	perform mark_samples(gone);
	types := array(select distinct s.material_type from spools s where s.tenant_id = tenant and s.id = any (gone));

	for loaded in
		select l.printer_id, l.slot from printer_slots l
		where l.tenant_id = tenant and (l.printer_id = any (gone)) <> (l.spool_id = any (gone))
	loop
		perform load_slot(loaded.printer_id, loaded.slot, null);
	end loop;

	-- A spool that stays begins with what the removed use has left.
	mixed := array(
		select distinct u.spool_id from spool_usage u
		where u.tenant_id = tenant and u.spool_id = any (kept) and (u.run_id = any (gone) or u.printer_id = any (gone)));
	perform mark_samples(array(
		select u.id from spool_usage u
		where u.tenant_id = tenant and u.spool_id = any (mixed)
			and (u.kind = 'created' or u.run_id = any (gone) or u.printer_id = any (gone))));
	perform delete_samples('spool_usage', 'id');
	perform begin_ledger(m.id) from unnest(mixed) m (id);

	select jsonb_object_agg(t.name, delete_samples(t.name, t.col)) into counted from (values
		('piece_entries', 'product_id'), ('product_pieces', 'product_id'),
		('usage_changes', 'spool_id'), ('printer_slots', 'printer_id'), ('printer_slots', 'spool_id'),
		('spool_usage', 'spool_id'), ('spool_contents', 'spool_id'),
		('run_history', 'run_id'), ('run_items', 'run_id'), ('run_materials', 'run_id'),
		('production_runs', 'id'), ('order_lines', 'order_id'), ('order_items', 'order_id'), ('orders', 'id'),
		('order_assignments', 'product_id'), ('product_components', 'product_id'),
		('product_materials', 'product_id'), ('variant_materials', 'variant_id'), ('product_pictures', 'product_id'),
		('products', 'id'),
		('spools', 'id'), ('filaments', 'id'),
		('vendors', 'id')) t (name, col);
	perform forget_printers(gone);
	counted := counted || jsonb_build_object('printers', delete_samples('printers', 'id'));
	perform delete_samples('stock_levels', 'id');

	perform summarize_again();
	perform recompute_costs(array_agg(p.id), false)
	from (
		select distinct m.product_id as id from product_materials m
		where m.tenant_id = tenant and m.material_type = any (types)
	) p
	having count(*) > 0;
	perform unmark_samples();
	update first_steps f set samples_at = null where f.tenant_id = tenant;
	perform count_rows(kind, -(counted ->> kind)::bigint)
	from unnest('{vendors,filaments,spools,printers,products,orders,production_runs}'::text[]) kind;
	return plan;
exception
	when foreign_key_violation then return null;
end $$;
