-- Planning these statements anew for each run took more time than running them: the planner takes a known short array for
-- reason enough to plan again. A plan for arrays of any length is the same one: each spool by its primary key.
alter function use_filament(uuid, uuid[], numeric[]) set plan_cache_mode = force_generic_plan;
