-- PostgreSQL plans statements with the statistics of their tables. By default, autovacuum checks once a minute which
-- tables have changed. If a table becomes large within this minute, PostgreSQL would plan as if the table were still
-- small.

-- Analyzes the table of the service that has grown most since PostgreSQL last analyzed it, and returns its name.
-- Returns null if no table has grown by half and by 16 blocks, which are 128 kB, or if another session is analyzing or
-- vacuuming that table. After ANALYZE, PostgreSQL plans prepared statements again. Autovacuum analyzes large tables:
-- they grow slowly in relation to their size, and this function must end within the time of a statement.
create or replace function analyze_grown() returns text
language plpgsql security definer set search_path = public, pg_temp as $$
declare
	grown regclass;
begin
	select t.oid into grown from (
		select c.oid, c.relpages, pg_relation_size(c.oid) / current_setting('block_size')::int as pages from pg_class c
		where c.relkind = 'r' and c.relpages < 1000000
			and c.relnamespace = 'public'::regnamespace
	) t where t.pages > 16 + 1.5 * t.relpages order by t.pages / (16 + 1.5 * t.relpages) desc limit 1;
	if grown is null then
		return null;
	end if;
	execute format('analyze (skip_locked) %s', grown);
	return (select c.relname from pg_class c where c.oid = grown
		and pg_relation_size(c.oid) / current_setting('block_size')::int <= 16 + 1.5 * c.relpages);
end $$;

revoke all on function analyze_grown from public;
grant execute on function analyze_grown to spoolwright_app;
