-- Weighed spools and reports of printers in the usage ledger. Reports that follow each other are one entry, which grows;
-- all other entries are never changed.
alter table spool_usage drop constraint spool_usage_kind_check;
alter table spool_usage add constraint spool_usage_kind_check
	check (kind in ('created', 'edited', 'deducted', 'run', 'measured', 'printed'));
alter table spool_usage
	add column shortfall_grams numeric(15,6) check (shortfall_grams between 0 and 999999999), -- reported, but not there
	add column updated_at timestamptz; -- when the entry grew last
grant update (after_grams, shortfall_grams, updated_at) on spool_usage to spoolwright_app;
create policy printed on spool_usage as restrictive for update using (kind = 'printed') with check (kind = 'printed');

-- Only statements with this condition use the index. Others, such as the checks of foreign keys, could have used it
-- instead of the primary key if they were planned when the table was empty.
drop index spools_number;
create unique index spools_number on spools (tenant_id, number) where num_nonnulls(number) = 1;
