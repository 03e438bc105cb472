-- When a row is hidden, sets hidden_by to the user or API key of the transaction. When the row is shown again, sets
-- hidden_by to null.
create or replace function set_hidden_by() returns trigger language plpgsql as $$
begin
	new.hidden_by := case when new.hidden_at is not null then coalesce(nullif(current_setting('app.user_id', true), ''),
		nullif(current_setting('app.api_key_id', true), ''))::uuid end;
	return new;
end $$;

do $$
declare
	name text;
begin
	foreach name in array '{spools,products,orders,production_runs,vendors,filaments,printers}'::text[] loop
		execute format('create or replace trigger set_hidden_by before update of hidden_at on %I
			for each row when (old.hidden_at is distinct from new.hidden_at) execute function set_hidden_by()', name);
	end loop;
end $$;
