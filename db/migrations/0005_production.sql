-- Production runs, their items and materials.

create table production_runs (
	tenant_id uuid,
	id uuid not null,
	status text collate "C" not null
		check (status in ('pending', 'in_progress', 'paused', 'completed', 'failed', 'cancelled')),
	printer_id uuid,
	printer_name text collate "C" check (length(printer_name) <= 200), -- that of the printer, if the run has one
	-- Pending runs of a printer are printed in this order, those without a position last.
	queue_position numeric(15,6) check (queue_position between 0 and 1000000),
	started_at timestamptz,
	completed_at timestamptz,
	estimated_print_time_hours numeric(15,6) check (estimated_print_time_hours >= 0
		and estimated_print_time_hours <= 100000),
	actual_print_time_hours numeric(15,6) check (actual_print_time_hours >= 0 and actual_print_time_hours <= 100000),
	estimated_total_filament_grams numeric(15,6)
		check (estimated_total_filament_grams >= 0 and estimated_total_filament_grams <= 1000000),
	-- Whether a client gave the estimate; otherwise it follows the items.
	hours_given boolean not null default false,
	grams_given boolean not null default false,
	actual_total_filament_grams numeric(15,6)
		check (actual_total_filament_grams >= 0 and actual_total_filament_grams <= 1000000),
	quality_rating int check (quality_rating between 1 and 5),
	quality_notes text collate "C" check (length(quality_notes) <= 10000),
	failure_reason text collate "C" check (failure_reason in ('adhesion', 'spaghetti', 'layer_shift', 'clog',
		'under_extrusion', 'over_extrusion', 'warping', 'stringing', 'filament_runout', 'power_failure', 'printer_error',
		'operator_error', 'quality', 'other')),
	failure_notes text collate "C" check (length(failure_notes) <= 10000),
	notes text collate "C" check (length(notes) <= 10000),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(), -- of the run, its items and its materials
	deducted_at timestamptz, -- set once, when the run ends: from then on status and materials are fixed
	-- The parts of what the run cost when it ended, at the prices of that time; null if they are unknown.
	filament_cost numeric(15,6) check (filament_cost >= 0 and filament_cost <= 999999999),
	waste_cost numeric(15,6) check (waste_cost >= 0 and waste_cost <= 999999999),
	machine_cost numeric(15,6) check (machine_cost >= 0 and machine_cost <= 999999999),
	energy_cost numeric(15,6) check (energy_cost >= 0 and energy_cost <= 999999999),
	labour_cost numeric(15,6) check (labour_cost >= 0 and labour_cost <= 999999999),
	hidden_at timestamptz,
	printer_key text collate "C" generated always as (lower(printer_name collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		coalesce(printer_name, '') || E'\n' || coalesce(notes, '') || E'\n' ||
		coalesce(quality_notes, '') || E'\n' || coalesce(failure_notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('production_runs', 'select, insert, update, delete');

create index production_runs_newest on production_runs (tenant_id, created_at, id)
	where hidden_at is null and created_at > '-infinity';
create index production_runs_status on production_runs (tenant_id, status, created_at, id)
	where hidden_at is null and created_at < 'infinity';
create index production_runs_printer on production_runs (tenant_id, printer_key, created_at, id)
	where hidden_at is null and printer_key is not null;
create index production_runs_printer_id on production_runs (tenant_id, printer_id, created_at, id)
	where printer_id is not null;
-- For the hours that a printer has printed.
create index production_runs_printed on production_runs (tenant_id, printer_id, deducted_at)
	include (status, actual_print_time_hours) where printer_id is not null and deducted_at is not null;
create index production_runs_started on production_runs (tenant_id, started_at, id)
	where hidden_at is null and started_at is not null;
create index production_runs_completed on production_runs (tenant_id, completed_at, id)
	where hidden_at is null and completed_at is not null;
create index production_runs_hidden on production_runs (tenant_id, created_at, id) where hidden_at is not null;
-- For what unfinished runs reserve.
create index production_runs_unfinished on production_runs (tenant_id, id)
	where status in ('pending', 'in_progress', 'paused');
-- For the report of waste: the runs that complete, fail or cancel has ended, by the time of that.
create index production_runs_ended on production_runs (tenant_id, status, deducted_at)
	where deducted_at is not null;

-- An item may print an item of an order. Both have the same product.
create table run_items (
	tenant_id uuid,
	id uuid not null,
	run_id uuid not null,
	product_id uuid not null,
	order_item_id uuid,
	quantity int not null check (quantity > 0 and quantity <= 1000000),
	successful_quantity int check (successful_quantity >= 0),
	failed_quantity int check (failed_quantity >= 0),
	failure_reason text collate "C" check (failure_reason in ('adhesion', 'spaghetti', 'layer_shift', 'clog',
		'under_extrusion', 'over_extrusion', 'warping', 'stringing', 'filament_runout', 'power_failure', 'printer_error',
		'operator_error', 'quality', 'other')),
	estimated_material_cost numeric(15,6) check (estimated_material_cost >= 0 and estimated_material_cost <= 999999999),
	estimated_total_cost numeric(15,6) check (estimated_total_cost >= 0 and estimated_total_cost <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	constraint run_items_order_item foreign key (tenant_id, order_item_id, product_id)
		references order_items (tenant_id, id, product_id),
	constraint run_items_counted check (
		coalesce(successful_quantity, 0)::bigint + coalesce(failed_quantity, 0) <= quantity)
);
call tenant_table('run_items', 'select, insert, update, delete');

create index run_items_run on run_items (tenant_id, run_id, created_at, id);
create index run_items_product on run_items (tenant_id, product_id, run_id)
	where num_nonnulls(product_id) = 1; -- see spool_usage_times
create index run_items_order on run_items (tenant_id, order_item_id) where order_item_id is not null;

-- The weights of the spool before and after printing, where both are recorded, take precedence over the weight that a
-- client sent.
create table run_materials (
	tenant_id uuid,
	id uuid not null,
	run_id uuid not null,
	spool_id uuid not null,
	estimated_weight_grams numeric(15,6) check (estimated_weight_grams >= 0 and estimated_weight_grams <= 1000000),
	sent_actual_grams numeric(15,6) check (sent_actual_grams >= 0 and sent_actual_grams <= 1000000),
	spool_weight_before_grams numeric(15,6) check (spool_weight_before_grams >= 0
		and spool_weight_before_grams <= 1000000),
	spool_weight_after_grams numeric(15,6) check (spool_weight_after_grams >= 0 and spool_weight_after_grams <= 1000000),
	actual_weight_grams numeric(15,6)
		generated always as (coalesce(spool_weight_before_grams - spool_weight_after_grams, sent_actual_grams)) stored,
	actual_reported boolean not null default false, -- whether sent_actual_grams is what printers reported
	estimated_purge_grams numeric(15,6) check (estimated_purge_grams >= 0 and estimated_purge_grams <= 1000000),
	actual_purge_grams numeric(15,6) check (actual_purge_grams >= 0 and actual_purge_grams <= 1000000),
	cost_per_gram numeric(15,6) check (cost_per_gram >= 0 and cost_per_gram <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	constraint run_materials_weighed check (spool_weight_after_grams <= spool_weight_before_grams)
);
call tenant_table('run_materials', 'select, insert, update, delete');

create index run_materials_run on run_materials (tenant_id, run_id, created_at, id);
create index run_materials_spool on run_materials (tenant_id, spool_id, run_id)
	where num_nonnulls(spool_id) = 1; -- see spool_usage_times
