-- More fields of spools. The first and the last use of existing spools are those of their ledgers.
alter table spools
	add column location text collate "C" check (length(location) <= 200),
	add column lot_number text collate "C" check (length(lot_number) <= 200),
	add column density_g_cm3 numeric(15,6) check (density_g_cm3 > 0 and density_g_cm3 <= 100),
	add column archived boolean not null default false,
	add column first_used_at timestamptz,
	add column last_used_at timestamptz;

-- Row-level security binds the owner of the tables too, and login_tenants does not return tenants without users.
alter table spools no force row level security;
alter table spool_usage no force row level security;
update spools s set first_used_at = u.first, last_used_at = u.last
from (
	select u.tenant_id, u.spool_id, min(u.created_at) as first, max(u.created_at) as last
	from spool_usage u where u.kind in ('deducted', 'run') group by u.tenant_id, u.spool_id
) u
where s.tenant_id = u.tenant_id and s.id = u.spool_id;
alter table spools force row level security;
alter table spool_usage force row level security;

-- Lists select either archived spools or the others.
drop index spools_newest, spools_material, spools_brand, spools_color, spools_in_stock;
create index spools_newest on spools (tenant_id, archived, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
create index spools_material on spools (tenant_id, material_type, archived, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
create index spools_brand on spools (tenant_id, brand_key, archived, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
create index spools_color on spools (tenant_id, color_key, archived, created_at, id)
	where num_nonnulls(hidden_at) <> 1;
create index spools_in_stock on spools (tenant_id, in_stock, archived, created_at, id)
	where num_nonnulls(hidden_at) <> 1;

-- row_counts has the number of the spools that are neither hidden nor archived. The definition db/counts has the
-- functions and the other triggers.
create function count_spools_added() returns trigger language plpgsql as $$
begin
	insert into row_counts (tenant_id, resource, shard, rows)
	select a.tenant_id, tg_table_name,
		coalesce(nullif(current_setting('app.count_shard', true), '')::int, pg_backend_pid() & 31), count(*)
	from added a where a.hidden_at is null and not a.archived group by a.tenant_id
	on conflict (tenant_id, resource, shard) do update set rows = row_counts.rows + excluded.rows;
	return null;
end $$;
create or replace trigger count_added after insert on spools referencing new table as added
	for each statement execute function count_spools_added();
create or replace trigger count_hidden after update of hidden_at, archived on spools
	for each row when (old.hidden_at is null and not old.archived and (new.hidden_at is not null or new.archived))
	execute function count_removed();
