-- Where a spool was imported from: repeating an import does not enter it twice, not even when it was removed since.
alter table spools add column external_key text collate "C" check (length(external_key) <= 500);
create unique index spools_external_key on spools (tenant_id, external_key) where external_key is not null;

-- A count is locked until its transaction ends. Imports are long, so they set app.count_shard and have a shard of their own.
create or replace function count_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name, coalesce(nullif(current_setting('app.count_shard', true), '')::int, pg_backend_pid() & 31), count(*)
	from added a group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;
