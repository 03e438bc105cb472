-- Marks resources of the tenant as sample data.
create or replace function mark_samples(ids uuid[]) returns void language sql as $$
	insert into sample_rows (id) select unnest(ids)
$$;

-- Makes all sample data of the tenant ordinary data.
create or replace function unmark_samples() returns void language sql as $$
	delete from sample_rows s where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
$$;

-- Deletes the rows of a table that are sample data or belong to it, of the tenant that the transaction is bound to:
-- rows whose column has an id in sample_rows. The service has no privilege to delete such rows, because records are
-- permanent; sample data is the exception. Returns how many of the rows were in the total of their list, if the table
-- has a list.
create or replace function delete_samples(name text, col text) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
	counted bigint;
begin
	if name || '.' || col not in ('usage_changes.spool_id', 'printer_slots.printer_id', 'printer_slots.spool_id',
		'spool_usage.id', 'spool_usage.spool_id', 'spool_contents.spool_id',
		'run_history.run_id', 'run_items.run_id', 'run_materials.run_id',
		'production_runs.id', 'order_lines.order_id', 'order_items.order_id', 'order_assignments.product_id',
		'orders.id', 'product_components.product_id',
		'product_materials.product_id', 'variant_materials.variant_id', 'product_pictures.product_id',
		'piece_entries.product_id',
		'product_pieces.product_id', 'products.id',
		'spools.id', 'filaments.id', 'vendors.id', 'printers.id',
		'stock_levels.id') then
		raise exception 'no sample data is in %.%', name, col;
	end if;
	execute format('
		with deleted as (
			delete from %I x using sample_rows s where x.tenant_id = $1 and s.tenant_id = $1 and x.%I = s.id
			returning to_jsonb(x) as x
		)
		select count(*) from deleted
		where x ->> ''hidden_at'' is null and x ->> ''plate_of'' is null and (x ->> ''archived'')::boolean is not true',
		name, col) into counted using nullif(current_setting('app.tenant_id', true), '')::uuid;
	return counted;
end $$;

-- Sets a time of samples, for example in the past.
create or replace function date_samples(name text, col text, ids uuid[], times timestamptz[]) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
	if name || '.' || col not in ('spools.created_at', 'orders.created_at', 'production_runs.created_at',
		'printers.maintained_at') then
		raise exception 'no sample data has %.%', name, col;
	end if;
	execute format('update %I x set %I = t.at from unnest($1, $2) t (id, at), sample_rows s
		where x.tenant_id = $3 and x.id = t.id and s.tenant_id = $3 and s.id = t.id', name, col)
	using ids, times, nullif(current_setting('app.tenant_id', true), '')::uuid;
end $$;

revoke all on function delete_samples, date_samples from public;
grant execute on function delete_samples, date_samples to spoolwright_app;
