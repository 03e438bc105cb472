-- Answers to POST requests that carried an Idempotency-Key, for a day.

create table idempotency_keys (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	user_id uuid not null,
	key text collate "C" not null check (length(key) between 1 and 255),
	request bytea not null, -- SHA-256 of path and body
	status int,
	location text collate "C",
	body bytea,
	created_at timestamptz not null default now(),
	primary key (tenant_id, user_id, key)
);
create index idempotency_keys_oldest on idempotency_keys (tenant_id, created_at);

alter table idempotency_keys enable row level security, force row level security;
create policy tenant on idempotency_keys
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update, delete on idempotency_keys to spoolwright_app;
