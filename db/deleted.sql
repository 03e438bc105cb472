-- Notes the rows that a statement deletes from a table with a list, for copies of a farm, and forgets them after 30
-- days. A statement of the owner of the tables, which removes a whole farm, has no tenant and notes nothing.
create or replace function note_deleted() returns trigger language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
begin
	insert into deleted_rows (resource, id)
	select replace(tg_table_name, '_', '-'), o.id from old_rows o where o.tenant_id = tenant;
	delete from deleted_rows d where d.tenant_id = tenant and d.deleted_at < now() - interval '30 days';
	return null;
end $$;

do $$
declare
	name text;
begin
	foreach name in array '{spools,products,orders,production_runs,vendors,filaments,printers}'::text[] loop
		execute format('create or replace trigger note_deleted after delete on %I referencing old table as old_rows
			for each statement execute function note_deleted()', name);
	end loop;
end $$;
