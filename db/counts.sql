-- Trigger functions that maintain row_counts, from which lists read their totals. A count is the sum of its 32 shards.
-- A backend uses the shard of its process number, so that concurrent transactions of one tenant rarely wait for the
-- same row.

-- Adds the inserted rows to the table's count. For a statement-level trigger with the transition table "added".
-- Long transactions set app.count_shard to a shard that no other transaction uses, because a shard stays locked
-- until commit.
create or replace function count_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name,
		coalesce(nullif(current_setting('app.count_shard', true), '')::int, pg_backend_pid() & 31), count(*)
	from added a group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

-- Like count_added, but does not count archived spools. No row is hidden when it is created.
create or replace function count_spools_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name,
		coalesce(nullif(current_setting('app.count_shard', true), '')::int, pg_backend_pid() & 31), count(*)
	from added a where not a.archived group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

-- Like count_added, but counts no plates of products.
create or replace function count_products_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name,
		coalesce(nullif(current_setting('app.count_shard', true), '')::int, pg_backend_pid() & 31), count(*)
	from added a where a.plate_of is null group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

-- Adds its argument, 1 or -1, to the table's count. For row-level triggers on DELETE and on an UPDATE that hides a row
-- or shows it again.
create or replace function count_changed() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	values (coalesce(new.tenant_id, old.tenant_id), tg_table_name, pg_backend_pid() & 31, tg_argv[0]::int)
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;

create or replace trigger count_added after insert on spools referencing new table as added
	for each statement execute function count_spools_added();
create or replace trigger count_hidden after update of hidden_at, archived on spools
	for each row when (old.hidden_at is null and not old.archived and (new.hidden_at is not null or new.archived))
	execute function count_changed('-1');
create or replace trigger count_restored after update of hidden_at, archived on spools
	for each row when ((old.hidden_at is not null or old.archived) and new.hidden_at is null and not new.archived)
	execute function count_changed('1');

create or replace trigger count_added after insert on products referencing new table as added
	for each statement execute function count_products_added();
create or replace trigger count_hidden after update of hidden_at on products
	for each row when (old.plate_of is null and old.hidden_at is null and new.hidden_at is not null)
	execute function count_changed('-1');
create or replace trigger count_restored after update of hidden_at on products
	for each row when (old.plate_of is null and old.hidden_at is not null and new.hidden_at is null)
	execute function count_changed('1');
create or replace trigger count_removed after delete on products
	for each row when (old.plate_of is null and old.hidden_at is null) execute function count_changed('-1');

do $$
declare
	name text;
begin
	foreach name in array '{orders,production_runs,vendors,filaments,printers}'::text[] loop
		execute format('create or replace trigger count_added after insert on %I referencing new table as added
			for each statement execute function count_added()', name);
		execute format('create or replace trigger count_hidden after update of hidden_at on %I
			for each row when (old.hidden_at is null and new.hidden_at is not null)
			execute function count_changed(''-1'')', name);
		execute format('create or replace trigger count_restored after update of hidden_at on %I
			for each row when (old.hidden_at is not null and new.hidden_at is null)
			execute function count_changed(''1'')', name);
	end loop;
	create or replace trigger count_removed after delete on spools
		for each row when (old.hidden_at is null and not old.archived) execute function count_changed('-1');
	foreach name in array '{orders,production_runs,vendors,filaments,printers}'::text[] loop
		execute format('create or replace trigger count_removed after delete on %I
			for each row when (old.hidden_at is null) execute function count_changed(''-1'')', name);
	end loop;
end $$;
