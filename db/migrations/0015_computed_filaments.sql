-- Equal spools without a filament show the same computed filament. computed_filament is its id, so that a list can read
-- computed filaments in the order of their ids. It is null for a spool with a filament. The definition inventory/rows
-- sets it, also for the spools that exist.
alter table spools add column computed_filament int;
comment on column spools.computed_filament is 'computed';
create index spools_computed_filament on spools (tenant_id, computed_filament, number)
	where hidden_at is null and computed_filament is not null;
