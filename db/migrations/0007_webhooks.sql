-- Webhooks, their deliveries and e-mails, and the queue of items with due work.

create table webhooks (
	tenant_id uuid,
	id uuid not null,
	url text not null check (length(url) between 1 and 2000),
	events text[] not null check (cardinality(events) between 1 and 100),
	-- The format that the receiver understands. For gotify and ntfy, the column secret has the receiver's token or an
	-- empty text; for standard, a secret; for the others, an empty text. The url of the format email is mailto: and an
	-- address.
	format text collate "C" not null default 'standard'
		check (format in ('standard', 'discord', 'email', 'gotify', 'ntfy', 'slack', 'teams')),
	daily boolean not null default false check (not daily or format = 'email'), -- one e-mail with the events of a day
	description text check (length(description) <= 200),
	secret bytea not null check (length(secret) <= 200), -- encrypted
	previous_secret bytea check (length(previous_secret) <= 200), -- encrypted; also signs until previous_until
	previous_until timestamptz,
	disabled_at timestamptz,
	disabled_reason text collate "C" check (disabled_reason in ('gone', 'failing')), -- null if a user disabled it
	failing_since timestamptz, -- the first failed try since the last success
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	primary key (tenant_id, id),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('webhooks', 'select, insert, update, delete');

create index webhooks_newest on webhooks (tenant_id, created_at, id);

-- An event for a webhook. Rows outlive their webhook until the dispatcher deletes them in small transactions. The
-- function valid_delivery, in the definition webhooks/emit, has the checks.
create table webhook_deliveries (
	tenant_id uuid,
	id uuid not null, -- made by uuid_v7, so that ids have the order of time
	webhook_id uuid not null,
	event_id text collate "C" not null, -- the header webhook-id
	type text collate "C" not null,
	body text not null,
	status text collate "C" not null default 'pending',
	tries int not null default 0, -- since the creation or the last redelivery
	next_try_at timestamptz,
	last_try_at timestamptz,
	duration_ms int, -- this column and the following: of the last try
	response_status int,
	response text,
	error text,
	created_at timestamptz not null default now(),
	primary key (tenant_id, id)
);
call tenant_table('webhook_deliveries', 'select, insert, update, delete');

create index webhook_deliveries_newest on webhook_deliveries (tenant_id, webhook_id, created_at, id);
create index webhook_deliveries_due on webhook_deliveries (tenant_id, webhook_id, next_try_at)
	where status = 'pending';

-- The number of e-mails that the webhooks of a tenant have sent in an hour, from all instances of the service.
create table webhook_emails (
	tenant_id uuid,
	hour timestamptz not null, -- its start
	sent int not null check (sent > 0),
	primary key (tenant_id),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('webhook_emails', 'select, insert, update');

-- The queue of items of all tenants with due work, outside of tenancy: the tables contain only ids. Business
-- transactions only insert signals for their own tenant, so that they never wait for each other. The functions of the
-- definition db/queue merge the signals into items. The owner of these functions sees the signals of all tenants,
-- because row-level security does not apply to the owner. The queue has items of several kinds; each kind has its
-- own workers.
create table queue_signals (
	tenant_id uuid,
	item_id uuid not null,
	kind text collate "C" not null default 'webhook' check (length(kind) <= 20)
);
call tenant_table('queue_signals', 'insert');
alter table queue_signals no force row level security;

create table queue_items (
	tenant_id uuid not null,
	item_id uuid not null,
	kind text collate "C" not null default 'webhook' check (length(kind) <= 20),
	due_at timestamptz not null,
	signalled boolean not null, -- whether queue_claim merged a signal since the lease began or was last checked
	leased_by uuid, -- null if no instance works on the item
	leased_until timestamptz,
	primary key (tenant_id, item_id, kind) -- the items of several kinds have the id of their tenant
);
create index queue_items_due on queue_items (due_at);
