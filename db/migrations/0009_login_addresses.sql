-- The addresses from which each user logged in or refreshed a session. Login reads them; they do not count for the limit
-- of failed logins of an account.
create table login_addresses (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	user_id uuid not null,
	address text collate "C" not null check (length(address) <= 100),
	used_at timestamptz not null,
	primary key (tenant_id, user_id, address),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);

alter table login_addresses enable row level security, force row level security;
create policy tenant on login_addresses
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));

grant select, insert, update, delete on login_addresses to spoolwright_app;
