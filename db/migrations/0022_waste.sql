-- Failed and cancelled runs, and the filament that they wasted.
alter table spool_usage drop constraint spool_usage_kind_check;
alter table spool_usage add constraint spool_usage_kind_check
	check (kind in ('created', 'edited', 'deducted', 'run', 'measured', 'printed', 'wasted'));

alter table production_runs
	add column failure_reason text collate "C" check (failure_reason in ('adhesion', 'spaghetti', 'layer_shift', 'clog',
		'under_extrusion', 'over_extrusion', 'warping', 'stringing', 'filament_runout', 'power_failure', 'printer_error',
		'operator_error', 'quality', 'other')),
	add column failure_notes text collate "C" check (length(failure_notes) <= 10000);
alter table run_items
	add column failure_reason text collate "C" check (failure_reason in ('adhesion', 'spaghetti', 'layer_shift', 'clog',
		'under_extrusion', 'over_extrusion', 'warping', 'stringing', 'filament_runout', 'power_failure', 'printer_error',
		'operator_error', 'quality', 'other'));

-- For the report of waste: the runs that complete, fail or cancel has ended, by the time of that. Only statements with
-- this condition use the index.
create index production_runs_ended on production_runs (tenant_id, status, deducted_at)
	where num_nonnulls(deducted_at) = 1;
