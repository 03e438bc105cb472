-- Production runs, their items and materials, and what completing one takes from the spools.

create table production_runs (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	status text collate "C" not null
		check (status in ('pending', 'in_progress', 'paused', 'completed', 'failed', 'cancelled')),
	printer_name text collate "C" check (length(printer_name) <= 200),
	started_at timestamptz,
	completed_at timestamptz,
	estimated_print_time_hours numeric(15,6) check (estimated_print_time_hours >= 0 and estimated_print_time_hours <= 100000),
	actual_print_time_hours numeric(15,6) check (actual_print_time_hours >= 0 and actual_print_time_hours <= 999999999),
	estimated_total_filament_grams numeric(15,6) check (estimated_total_filament_grams >= 0 and estimated_total_filament_grams <= 1000000),
	actual_total_filament_grams numeric(15,6) check (actual_total_filament_grams >= 0 and actual_total_filament_grams <= 999999999),
	quality_rating int check (quality_rating between 1 and 5),
	quality_notes text collate "C" check (length(quality_notes) <= 10000),
	notes text collate "C" check (length(notes) <= 10000),
	created_at timestamptz not null default now(),
	deducted_at timestamptz, -- set once, by complete_run: from then on status and materials are fixed
	printer_key text collate "C" generated always as (lower(printer_name collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);
create index production_runs_newest on production_runs (tenant_id, created_at, id);
create index production_runs_status on production_runs (tenant_id, status, created_at, id);
create index production_runs_printer on production_runs (tenant_id, printer_key, created_at, id);

create trigger count_added after insert on production_runs referencing new table as added
	for each statement execute function count_added();
create trigger count_removed after delete on production_runs
	for each row execute function count_removed();

create table run_items (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	run_id uuid not null,
	product_id uuid not null,
	quantity int not null check (quantity > 0 and quantity <= 1000000),
	successful_quantity int check (successful_quantity >= 0),
	failed_quantity int check (failed_quantity >= 0),
	estimated_material_cost numeric(15,6) check (estimated_material_cost >= 0 and estimated_material_cost <= 999999999),
	estimated_total_cost numeric(15,6) check (estimated_total_cost >= 0 and estimated_total_cost <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	constraint run_items_counted check (coalesce(successful_quantity, 0)::bigint + coalesce(failed_quantity, 0) <= quantity)
);
create index run_items_run on run_items (tenant_id, run_id, created_at, id);

create table run_materials (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	run_id uuid not null,
	spool_id uuid not null,
	estimated_weight_grams numeric(15,6) check (estimated_weight_grams >= 0 and estimated_weight_grams <= 1000000),
	spool_weight_before_grams numeric(15,6) check (spool_weight_before_grams >= 0 and spool_weight_before_grams <= 1000000),
	spool_weight_after_grams numeric(15,6) check (spool_weight_after_grams >= 0 and spool_weight_after_grams <= 1000000),
	actual_weight_grams numeric(15,6) generated always as (spool_weight_before_grams - spool_weight_after_grams) stored,
	estimated_purge_grams numeric(15,6) check (estimated_purge_grams >= 0 and estimated_purge_grams <= 1000000),
	actual_purge_grams numeric(15,6) check (actual_purge_grams >= 0 and actual_purge_grams <= 1000000),
	cost_per_gram numeric(15,6) check (cost_per_gram >= 0 and cost_per_gram <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	constraint run_materials_weighed check (spool_weight_after_grams <= spool_weight_before_grams)
);
create index run_materials_run on run_materials (tenant_id, run_id, created_at, id);

alter table production_runs enable row level security, force row level security;
create policy tenant on production_runs
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table run_items enable row level security, force row level security;
create policy tenant on run_items
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table run_materials enable row level security, force row level security;
create policy tenant on run_materials
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update, delete on production_runs, run_items, run_materials to spoolwright_app;

-- How a spool is called where something else mentions it.
create function spool_name(material_type text, color text, brand text) returns text language sql immutable parallel safe as $$
	select material_type || ' ' || color || coalesce(' (' || nullif(brand, '') || ')', '')
$$;

-- Inventory's part of completing a run: takes grams[n] from spool_ids[n], writes one ledger row for each, and returns a
-- row for each spool. The spools are locked in the order of their ids, so that runs which share spools never wait for
-- each other in a circle. If any spool is hidden or has too little, nothing changes and just those spools are returned,
-- as short. The spools must exist.
create function use_filament(run uuid, spool_ids uuid[], grams numeric[])
returns table (spool_id uuid, name text, previous_weight numeric, new_weight numeric, deducted numeric, short boolean)
language plpgsql as $$
begin
	perform from spools s where s.id = any (spool_ids) order by s.id for no key update;

	return query
		select s.id, spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams, s.remaining_weight_grams, used.total, true
		from spools s
		join (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used on used.id = s.id
		where s.hidden_at is not null or s.remaining_weight_grams < used.total
		order by s.id;
	if found then
		return;
	end if;

	insert into spool_usage (spool_id, kind, run_id, before_grams, after_grams)
	select s.id, 'run', run, s.remaining_weight_grams - u.so_far + u.g, s.remaining_weight_grams - u.so_far
	from (
		select e.id, e.g, e.n, sum(e.g) over (partition by e.id order by e.n) as so_far
		from unnest(spool_ids, grams) with ordinality e (id, g, n)
	) u
	join spools s on s.id = u.id
	order by u.n;

	return query
		update spools s set remaining_weight_grams = s.remaining_weight_grams - used.total, updated_at = now()
		from (select u.id, sum(u.g) as total from unnest(spool_ids, grams) u (id, g) group by u.id) used
		where s.id = used.id
		returning s.id, spool_name(s.material_type, s.color, s.brand), s.remaining_weight_grams + used.total, s.remaining_weight_grams, used.total, false;
end $$;

-- Completes a run: the run is locked first, then its spools. A refusal is a code with a detail, and changes nothing.
create function complete_run(target uuid)
returns table (refusal text, detail text, finished_at timestamptz, spools_updated json)
language plpgsql as $$
declare
	run production_runs;
	spool_ids uuid[];
	grams numeric[];
	missing text;
	short text;
begin
	select * into run from production_runs r where r.id = target for no key update;
	if not found then
		refusal := 'NOT_FOUND';
		return next;
		return;
	end if;
	if run.deducted_at is not null then
		refusal := 'RUN_ALREADY_COMPLETED';
		detail := 'The run was completed before; its filament is deducted';
		return next;
		return;
	end if;

	select array_agg(m.spool_id order by m.created_at, m.id), array_agg(m.actual_weight_grams order by m.created_at, m.id),
		string_agg(spool_name(s.material_type, s.color, s.brand) || ' (material ' || m.id || ')', ', ' order by m.created_at, m.id)
			filter (where m.actual_weight_grams is null)
	into spool_ids, grams, missing
	from run_materials m join spools s on s.id = m.spool_id
	where m.run_id = target;
	if spool_ids is null then
		refusal := 'RUN_HAS_NO_MATERIALS';
		detail := 'The run has no materials, so there is nothing to deduct';
		return next;
		return;
	end if;
	if missing is not null then
		refusal := 'ACTUAL_USAGE_MISSING';
		detail := 'Record spool_weight_before_grams and spool_weight_after_grams first for: ' || missing;
		return next;
		return;
	end if;

	select string_agg(u.name || ' (spool ' || u.spool_id || ') has ' || trim_scale(u.previous_weight) || ' g of ' || trim_scale(u.deducted) || ' g', ', ' order by u.spool_id)
			filter (where u.short),
		json_agg(json_build_object('spool_id', u.spool_id, 'previous_weight', trim_scale(u.previous_weight),
			'new_weight', trim_scale(u.new_weight), 'deducted', trim_scale(u.deducted)) order by u.spool_id)
	into short, spools_updated
	from use_filament(target, spool_ids, grams) u;
	if short is not null then
		refusal := 'INSUFFICIENT_FILAMENT';
		detail := 'Too little filament is left, or the spool was removed: ' || short;
		spools_updated := null;
		return next;
		return;
	end if;

	update production_runs r set
		status = 'completed',
		deducted_at = now(),
		completed_at = coalesce(r.completed_at, now()),
		actual_total_filament_grams = (select sum(g) from unnest(grams) g),
		actual_print_time_hours = coalesce(r.actual_print_time_hours, case when r.started_at is not null then
			greatest(0, round(extract(epoch from coalesce(r.completed_at, now()) - r.started_at) / 3600, 6)) end)
	where r.id = target
	returning r.completed_at into finished_at;
	return next;
end $$;
