-- Production runs, their items and materials.

create table production_runs (
	tenant_id uuid,
	id uuid not null,
	status text collate "C" not null
		check (status in ('pending', 'in_progress', 'paused', 'completed', 'failed', 'cancelled')),
	printer_id uuid,
	printer_name text collate "C" check (length(printer_name) <= 200), -- the name of the printer, if the run has one
	-- The order of the pending runs of a printer; runs without a position come last.
	queue_position numeric(15,6) check (queue_position between 0 and 1000000),
	started_at timestamptz,
	completed_at timestamptz,
	estimated_print_time_hours numeric(15,6) check (estimated_print_time_hours >= 0
		and estimated_print_time_hours <= 100000),
	actual_print_time_hours numeric(15,6) check (actual_print_time_hours >= 0 and actual_print_time_hours <= 100000),
	estimated_total_filament_grams numeric(15,6)
		check (estimated_total_filament_grams >= 0 and estimated_total_filament_grams <= 1000000),
	-- Whether a client gave the estimate; otherwise the estimate follows the items.
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
	updated_at timestamptz not null default now(), -- changes with the run, its items and its materials
	-- Set when the run ends: then only a correction changes the status and the materials.
	deducted_at timestamptz,
	-- The parts of the cost of the run, at the prices when it ended; null if unknown.
	filament_cost numeric(15,6) check (filament_cost >= 0 and filament_cost <= 999999999),
	waste_cost numeric(15,6) check (waste_cost >= 0 and waste_cost <= 999999999),
	machine_cost numeric(15,6) check (machine_cost >= 0 and machine_cost <= 999999999),
	energy_cost numeric(15,6) check (energy_cost >= 0 and energy_cost <= 999999999),
	labour_cost numeric(15,6) check (labour_cost >= 0 and labour_cost <= 999999999),
	-- The prices when the run ended: of a machine hour, of energy, and of an hour of work; null if unknown.
	hour_cost numeric(15,6) check (hour_cost >= 0 and hour_cost <= 1000000),
	power_watts numeric(15,6) check (power_watts >= 0 and power_watts <= 1000000),
	energy_kwh_cost numeric(15,6) check (energy_kwh_cost >= 0 and energy_kwh_cost <= 1000000),
	labour_hour_cost numeric(15,6) check (labour_hour_cost >= 0 and labour_hour_cost <= 1000000),
	-- Where the grams come from that a watched printer's job has filled in; null if a person or nobody gave them.
	usage_source text collate "C" check (usage_source in ('reports', 'grams', 'length', 'estimate')),
	hidden_at timestamptz,
	hidden_by uuid, -- the user or API key; null if the command line hid the row
	-- When the run ended, set after complete, fail or cancel: all reports date the run to this time.
	ended_at timestamptz generated always as (
		case when deducted_at is not null then coalesce(completed_at, deducted_at) end) stored,
	-- The waste of an ended run, as a fraction of its filament, in units of 10^-12; see completed_waste.
	wasted_parts bigint check (wasted_parts between 0 and 1000000000000),
	printer_key text collate "C" generated always as (lower(printer_name collate "und-x-icu") collate "C") stored,
	search_key text collate "C" not null generated always as (regexp_replace(normalize(lower((
		coalesce(printer_name, '') || E'\n' || coalesce(notes, '') || E'\n' ||
		coalesce(quality_notes, '') || E'\n' || coalesce(failure_notes, ''))
		collate "und-x-icu") collate "C", NFKD), U&'[\0300-\036F]', '', 'g')) stored,
	primary key (tenant_id, id),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('production_runs', 'select, insert, update, delete');

create index production_runs_newest on production_runs (tenant_id, created_at, id) where hidden_at is null;
create index production_runs_status on production_runs (tenant_id, status, created_at, id) where hidden_at is null;
create index production_runs_printer on production_runs (tenant_id, printer_key, created_at, id)
	where hidden_at is null and printer_key is not null;
create index production_runs_printer_id on production_runs (tenant_id, printer_id, created_at, id)
	where printer_id is not null;
-- For the hours of printing of a printer.
create index production_runs_printed on production_runs (tenant_id, printer_id, ended_at)
	include (status, actual_print_time_hours) where printer_id is not null and ended_at is not null;
create index production_runs_started on production_runs (tenant_id, started_at, id)
	where hidden_at is null and started_at is not null;
create index production_runs_completed on production_runs (tenant_id, completed_at, id)
	where hidden_at is null and completed_at is not null;
create index production_runs_hidden on production_runs (tenant_id, created_at, id) where hidden_at is not null;
create index production_runs_updated on production_runs (tenant_id, updated_at, id);
-- For the filament that unfinished runs reserve.
create index production_runs_unfinished on production_runs (tenant_id, id)
	where status in ('pending', 'in_progress', 'paused');
-- For the completed runs that have not deducted filament.
create index production_runs_unconfirmed on production_runs (tenant_id, id)
	where status = 'completed' and deducted_at is null and hidden_at is null;
-- For the runs with waste of a reason.
create index production_runs_reason on production_runs (tenant_id, failure_reason) where failure_reason is not null;
-- To find out whether a printer is busy.
create index production_runs_at_printer on production_runs (tenant_id, printer_id)
	where status in ('in_progress', 'paused') and printer_id is not null;
-- For reports on the runs that complete, fail or cancel has ended, by the time of their end.
create index production_runs_ended on production_runs (tenant_id, status, ended_at) where ended_at is not null;

-- An item of a run may print an item of an order, or a part of it: a component, at any level. order_item_problem has
-- the rule.
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
	-- Whether the run prints only the product's own materials, and its components are taken from stock. Otherwise the run
	-- prints the components, too.
	parts_from_stock boolean not null default false,
	estimated_material_cost numeric(15,6) check (estimated_material_cost >= 0 and estimated_material_cost <= 999999999),
	estimated_total_cost numeric(15,6) check (estimated_total_cost >= 0 and estimated_total_cost <= 999999999),
	-- The result of product_bom when the item of a pending run was planned.
	planned_bom text collate "C" check (length(planned_bom) <= 100000),
	-- The minutes of work on a piece and its components when the run was completed; null if unknown or without a
	-- price.
	labour_minutes numeric(15,6) check (labour_minutes >= 0 and labour_minutes <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	constraint run_items_order_item foreign key (tenant_id, order_item_id) references order_items (tenant_id, id),
	constraint run_items_counted check (
		coalesce(successful_quantity, 0)::bigint + coalesce(failed_quantity, 0) <= quantity)
);
call tenant_table('run_items', 'select, insert, update, delete');

create index run_items_run on run_items (tenant_id, run_id, created_at, id);
create index run_items_product on run_items (tenant_id, product_id, run_id);
create index run_items_reason on run_items (tenant_id, failure_reason, run_id) where failure_reason is not null;
create index run_items_order on run_items (tenant_id, order_item_id) where order_item_id is not null;

-- If the weights of the spool before and after printing are both recorded, they take precedence over the weight that a
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
	actual_reported boolean not null default false, -- whether printers reported sent_actual_grams
	estimated_purge_grams numeric(15,6) check (estimated_purge_grams >= 0 and estimated_purge_grams <= 1000000),
	actual_purge_grams numeric(15,6) check (actual_purge_grams >= 0 and actual_purge_grams <= 1000000),
	cost_per_gram numeric(15,6) check (cost_per_gram >= 0 and cost_per_gram <= 999999999),
	-- These columns record what the end of the run changed: sent_actual_grams and cost_per_gram before the end, and
	-- the use outside of the run that counts for the run, with the part of it that weighing and edits had removed.
	given_grams numeric(15,6) check (given_grams >= 0 and given_grams <= 1000000),
	given_cost numeric(15,6) check (given_cost >= 0 and given_cost <= 999999999),
	counted_grams numeric(15,6) check (counted_grams >= 0 and counted_grams <= 1000000),
	counted_corrections numeric(15,6) check (counted_corrections >= 0 and counted_corrections <= 1000000),
	exchanged_at timestamptz, -- when another spool replaced the material
	-- The result of spool_filament when the spool became the material.
	planned_filament text collate "C" check (length(planned_filament) <= 1000),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade,
	foreign key (tenant_id, spool_id) references spools (tenant_id, id),
	constraint run_materials_weighed check (spool_weight_after_grams <= spool_weight_before_grams)
);
call tenant_table('run_materials', 'select, insert, update, delete');

create index run_materials_run on run_materials (tenant_id, run_id, created_at, id);
create index run_materials_spool on run_materials (tenant_id, spool_id, run_id);

-- The ends of runs, and the changes after the end or during printing. Rows are never deleted.
create table run_history (
	tenant_id uuid,
	id uuid not null,
	run_id uuid not null,
	action text collate "C" not null
		check (action in ('completed', 'failed', 'cancelled', 'corrected', 'reopened', 'exchanged')),
	reason text collate "C" check (length(reason) <= 10000),
	before text collate "C" not null check (length(before) <= 100000), -- the result of run_state, JSON
	user_id uuid default nullif(current_setting('app.user_id', true), '')::uuid,
	api_key_id uuid default nullif(current_setting('app.api_key_id', true), '')::uuid,
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete cascade
);
call tenant_table('run_history', 'select, insert');

create index run_history_run on run_history (tenant_id, run_id, created_at, id);

-- The use of each day: a summary of the ledger, which reports read instead of the ledger. The functions of the
-- definition production/usage summarize a day when its entries no longer change. Deductions do not touch these tables.
-- Each day has rows by filament, and other rows by printer with the same totals: rows by filament and printer would be
-- nearly as many as the entries.
create table usage_days (
	tenant_id uuid,
	by_printer boolean not null,
	day date not null, -- in the time zone of usage_summaries
	material_type text collate "C" not null check (length(material_type) <= 20), -- '' by printer
	color_key text collate "C" not null check (length(color_key) <= 1000), -- '' by printer
	-- The printer's id, or else the name of the printer or the API key; '' by filament, and without a printer.
	printer_key text collate "C" not null check (length(printer_key) <= 1000),
	color text collate "C" check (length(color) <= 200),
	printer_name text collate "C" check (length(printer_name) <= 200),
	grams numeric(15,6) not null check (grams between -999999999 and 999999999),
	wasted_grams numeric(15,6) not null check (wasted_grams between -999999999 and 999999999), -- in grams
	corrected_grams numeric(15,6) not null check (corrected_grams between -999999999 and 999999999), -- not in grams
	cost numeric(15,6) check (cost between -999999999 and 999999999), -- of grams; null if no spool had a price
	unpriced_grams numeric(15,6) not null check (unpriced_grams between -999999999 and 999999999), -- in grams
	primary key (tenant_id, by_printer, day, material_type, color_key, printer_key)
);
call tenant_table('usage_days', 'select, insert, delete');

-- The first day that is not in usage_days, and the time zone of the days in usage_days. If it is not the time zone of
-- the tenant, reports do not use these days. The time zone is null while the days are deleted.
create table usage_summaries (
	tenant_id uuid,
	next_day date not null,
	time_zone text collate "C" check (length(time_zone) <= 100),
	primary key (tenant_id)
);
call tenant_table('usage_summaries', 'select, insert, update');

-- The last state of each watched printer.
create table printer_states (
	tenant_id uuid,
	id uuid not null, -- of the printer
	sequence bigint not null default 0 check (sequence >= 0), -- 0 before the first state
	state text collate "C" not null default 'unknown'
		check (state in ('idle', 'printing', 'paused', 'attention', 'offline', 'unknown')),
	message text collate "C" check (length(message) <= 500),
	code text collate "C" check (length(code) <= 100),
	printer_at timestamptz, -- by the printer's clock, which is only shown
	observed_at timestamptz,
	received_at timestamptz not null default now(),
	changed_at timestamptz not null default now(), -- since when the printer is in the state
	job text collate "C" check (length(job) <= 100000), -- the printer's last job, as JSON
	job_id text collate "C" check (length(job_id) <= 200),
	slots text collate "C" check (length(slots) <= 100000), -- what is loaded, as JSON
	created_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id, id) references printers (tenant_id, id) on delete cascade
) with (fillfactor = 50);
call tenant_table('printer_states', 'select, insert, update, delete');

create index printer_states_newest on printer_states (tenant_id, created_at, id);
create index printer_states_attention on printer_states (tenant_id, id) where state = 'attention';

-- The changes of the states of printers.
create table printer_state_changes (
	tenant_id uuid,
	id uuid not null, -- made by uuid_v7
	printer_id uuid not null,
	state text collate "C" not null check (state in ('idle', 'printing', 'paused', 'attention', 'offline', 'unknown')),
	message text collate "C" check (length(message) <= 500),
	code text collate "C" check (length(code) <= 100),
	file text collate "C" check (length(file) <= 500), -- of the job
	outcome text collate "C" check (outcome in ('completed', 'cancelled', 'failed', 'unknown')), -- of the job
	created_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id) on delete cascade
);
call tenant_table('printer_state_changes', 'select, insert, delete');

create index printer_state_changes_newest on printer_state_changes (tenant_id, printer_id, created_at, id);
create index printer_state_changes_oldest on printer_state_changes (tenant_id, created_at, id);

-- The jobs of watched printers: each belongs to one run at most, and each run to one job. A job without a run waits for
-- the answer of a person, or belongs to no run.
create table printer_jobs (
	tenant_id uuid,
	printer_id uuid not null,
	job text collate "C" not null check (length(job) <= 200), -- its identity
	run_id uuid,
	asked boolean not null default false, -- whether a person must say which run it is
	details text collate "C" not null check (length(details) <= 100000), -- at its start, or at its end, as JSON
	outcome text collate "C" check (outcome in ('completed', 'cancelled', 'failed', 'unknown')), -- null before its end
	ended_at timestamptz, -- as its watcher observed it
	file_key text collate "C" check (length(file_key) <= 500), -- the key of its file
	plate integer, -- of the file
	created_at timestamptz not null default now(),
	primary key (tenant_id, printer_id, job),
	foreign key (tenant_id, printer_id) references printers (tenant_id, id) on delete cascade,
	foreign key (tenant_id, run_id) references production_runs (tenant_id, id) on delete set null (run_id)
);
call tenant_table('printer_jobs', 'select, insert, update, delete');

create unique index printer_jobs_run on printer_jobs (tenant_id, run_id) where run_id is not null;
create index printer_jobs_oldest on printer_jobs (tenant_id, created_at) where run_id is null;
create index printer_jobs_newest on printer_jobs (tenant_id, printer_id, created_at);
create index printer_jobs_asked on printer_jobs (tenant_id, printer_id, created_at) where asked;
create index printer_jobs_file on printer_jobs (tenant_id, file_key, created_at) where run_id is not null;

-- Which watcher may watch a printer, and until when.
create table printer_leases (
	tenant_id uuid,
	id uuid not null, -- of the printer
	watcher text collate "C" not null check (length(watcher) <= 100),
	expires_at timestamptz not null,
	primary key (tenant_id, id),
	foreign key (tenant_id, id) references printers (tenant_id, id) on delete cascade
) with (fillfactor = 50);
call tenant_table('printer_leases', 'select, insert, update, delete');
