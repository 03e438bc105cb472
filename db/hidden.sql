-- When a row is hidden, sets hidden_by to the user or API key of the transaction. When the row is shown again, sets
-- hidden_by to null.
create or replace function set_hidden_by() returns trigger language plpgsql as $$
begin
	new.hidden_by := case when new.hidden_at is not null then coalesce(nullif(current_setting('app.user_id', true), ''),
		nullif(current_setting('app.api_key_id', true), ''))::uuid end;
	return new;
end $$;

-- Removes the row with the id from the list of a kind, unless it is hidden: deletes the row, or hides it if another row
-- refers to it. The check waits for transactions that delete such rows. Subtracts the row from the total of the list,
-- and returns the change.
create or replace function remove_row(of_kind text, of_id uuid) returns bigint language plpgsql as $$
declare
	n bigint;
begin
	begin
		execute format('delete from %I where id = $1 and hidden_at is null', of_kind) using of_id;
	exception when foreign_key_violation then
		execute format('update %I set hidden_at = now(), updated_at = now() where id = $1 and hidden_at is null', of_kind)
			using of_id;
	end;
	get diagnostics n = row_count;
	return count_rows(of_kind, -n);
end $$;

-- Notes the rows that a statement deletes from a table with a list, for copies of a farm, and forgets them after 30
-- days. The removal of a whole farm deletes the notes last.
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
		execute format('create or replace trigger set_hidden_by before update of hidden_at on %I
			for each row when (old.hidden_at is distinct from new.hidden_at) execute function set_hidden_by()', name);
		execute format('create or replace trigger note_deleted after delete on %I referencing old table as old_rows
			for each statement execute function note_deleted()', name);
	end loop;
end $$;
