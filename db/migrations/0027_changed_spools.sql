-- Finds the spools of a tenant that changed lately, without an index on columns that a deduction changes: those of new
-- ledger entries, whose ids contain their time; those of reports that extend an entry of the last hour; and those that
-- were edited, hidden or restored.
alter table spools add column edited_at timestamptz;
create index spools_edited on spools (tenant_id, edited_at) where num_nonnulls(edited_at) = 1;
create index spool_usage_printed on spool_usage (tenant_id, id) where kind = 'printed';
