-- Returns the spools that have or had filament of a lot, with the times since and until which they had it. A time is
-- null if the spool was not refilled before or after.
create or replace function spools_of_lot(lot text) returns table (spool_id uuid, since timestamptz, until timestamptz)
language sql stable as $$
	select n.id, (
		select max(c.closed_at) from spool_contents c where c.spool_id = n.id and c.closed_at < coalesce(n.until, 'infinity')
	), n.until
	from (
		select s.id, null::timestamptz as until from spools s
		where s.lot_key = lower(lot collate "und-x-icu") collate "C"
		union all
		select c.spool_id, c.closed_at from spool_contents c
		where c.lot_key = lower(lot collate "und-x-icu") collate "C"
	) n
$$;

-- Returns the runs that used or will use filament of a lot: runs whose use is in the ledger and was not reversed, and
-- open runs that have not deducted their materials yet. A run during which the spool was refilled belongs to both
-- lots. grams is the recorded use of the spool in the run.
create or replace function runs_of_lot(lot text) returns table (run_id uuid, spool_id uuid, grams numeric)
language sql stable as $$
	select n.run_id, n.spool_id, sum(n.grams)
	from (
		select u.run_id, u.spool_id, coalesce(u.shortfall_grams, 0) - u.change_grams as grams, false as open
		from spools_of_lot(lot) s
		join spool_usage u on u.spool_id = s.spool_id
		join production_runs r on r.id = u.run_id
		where (s.since is null or coalesce(u.used_at, u.created_at) > s.since)
			and (s.until is null or least(u.used_at, u.created_at, r.started_at) <= s.until)
		union all
		select m.run_id, m.spool_id, 0, true
		from spools_of_lot(lot) s
		join run_materials m on m.spool_id = s.spool_id
		join production_runs r on r.id = m.run_id
		where r.deducted_at is null and r.status not in ('failed', 'cancelled')
			and (s.since is null or coalesce(r.completed_at, 'infinity') > s.since)
			and (s.until is null or r.started_at <= s.until)
	) n
	group by n.run_id, n.spool_id having sum(n.grams) > 0 or bool_or(n.open)
$$;
