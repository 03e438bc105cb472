-- Webhooks, their deliveries, and the queue of items with due work.

create table webhooks (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	url text not null check (length(url) between 1 and 2000),
	events text[] not null check (cardinality(events) between 1 and 100),
	description text check (length(description) <= 200),
	secret bytea not null check (length(secret) <= 200), -- encrypted
	previous_secret bytea check (length(previous_secret) <= 200), -- encrypted; also signs until previous_until
	previous_until timestamptz,
	disabled_at timestamptz,
	disabled_reason text collate "C" check (disabled_reason in ('gone', 'failing')), -- null if a user disabled it
	failing_since timestamptz, -- the first failed try since the last success
	created_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);
create index webhooks_newest on webhooks (tenant_id, created_at, id);

-- One event for one webhook. Rows outlive their webhook until the dispatcher deletes them in small transactions.
create table webhook_deliveries (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null, -- made by uuid_v7, and so in the order of time
	webhook_id uuid not null,
	event_id text collate "C" not null check (length(event_id) <= 100), -- the header webhook-id
	type text collate "C" not null check (length(type) <= 100),
	body text not null check (octet_length(body) < 20000),
	status text collate "C" not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
	tries int not null default 0 check (tries >= 0), -- since the creation or the last redelivery
	next_try_at timestamptz check (next_try_at is null or status = 'pending'),
	last_try_at timestamptz,
	duration_ms int check (duration_ms >= 0), -- this and the following: of the last try
	response_status int,
	response text check (length(response) <= 1024),
	error text check (length(error) <= 500),
	created_at timestamptz not null default now(),
	primary key (tenant_id, id)
);
create index webhook_deliveries_newest on webhook_deliveries (tenant_id, webhook_id, created_at, id);
create index webhook_deliveries_due on webhook_deliveries (tenant_id, webhook_id, next_try_at)
	where status = 'pending';

alter table webhooks enable row level security, force row level security;
create policy tenant on webhooks
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table webhook_deliveries enable row level security, force row level security;
create policy tenant on webhook_deliveries
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update, delete on webhooks, webhook_deliveries to spoolwright_app;

-- Items of all tenants with due work, outside of tenancy like login_directory: they contain only ids, and only the
-- functions of the definition db/queue access them. Business transactions only insert signals, so that they never
-- wait for each other; queue_claim merges the signals into items.
create table queue_signals (
	tenant_id uuid not null,
	item_id uuid not null
);
create table queue_items (
	tenant_id uuid not null,
	item_id uuid not null,
	due_at timestamptz not null,
	signalled boolean not null, -- whether queue_claim merged a signal since the lease began or was last checked
	leased_by uuid, -- null if no instance works on the item
	leased_until timestamptz,
	primary key (tenant_id, item_id)
);
create index queue_items_due on queue_items (due_at);
