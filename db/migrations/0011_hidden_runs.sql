-- A removed run that has deducted filament is hidden, so that the usage ledger still refers to an existing run.
alter table production_runs add column hidden_at timestamptz;

drop index production_runs_newest, production_runs_status, production_runs_printer;
create index production_runs_newest on production_runs (tenant_id, created_at, id) where hidden_at is null;
create index production_runs_status on production_runs (tenant_id, status, created_at, id) where hidden_at is null;
create index production_runs_printer on production_runs (tenant_id, printer_key, created_at, id) where hidden_at is null;

-- For the lists of hidden rows.
create index production_runs_hidden on production_runs (tenant_id, created_at, id) where hidden_at is not null;
create index spools_hidden on spools (tenant_id, created_at, id) where hidden_at is not null;

-- The triggers count_restored, which add a row that is shown again, are in the definition db/counts.
create or replace trigger count_removed after delete on production_runs
	for each row when (old.hidden_at is null) execute function count_removed();
create trigger count_hidden after update of hidden_at on production_runs
	for each row when (old.hidden_at is null and new.hidden_at is not null) execute function count_removed();
