-- For what unfinished runs reserve. Only statements with this condition use the index.
create index production_runs_unfinished on production_runs (tenant_id, id)
	where status in ('pending', 'in_progress', 'paused');
