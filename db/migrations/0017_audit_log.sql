-- Who did what in a farm, when and from where. The function audit_add, in the definition auth/audit, inserts the rows.

create table audit_log (
	tenant_id uuid,
	id uuid not null, -- made by uuid_v7
	created_at timestamptz not null default now(),
	action text collate "C" not null check (length(action) between 1 and 60),
	actor_kind text collate "C" not null check (actor_kind in ('user', 'api_key', 'command_line', 'service', 'unknown')),
	actor_id uuid, -- a user or an API key, kept when the user is removed
	actor_name text collate "C" check (length(actor_name) <= 200), -- as it was then
	address text collate "C" check (length(address) <= 64), -- of the client
	object_kind text collate "C" check (length(object_kind) <= 60),
	object_id uuid, -- kept when the object is removed
	object_name text collate "C" check (length(object_name) <= 200), -- as it was then
	fields text[] collate "C" not null default '{}' check (cardinality(fields) <= 100), -- the fields that changed
	primary key (tenant_id, id)
);
-- Nobody in the farm can change an entry; audit_trim deletes the old ones.
call tenant_table('audit_log', 'select, insert');

create index audit_log_newest on audit_log (tenant_id, created_at, id);
create index audit_log_action on audit_log (tenant_id, action, created_at, id);
create index audit_log_actor on audit_log (tenant_id, actor_id, created_at, id);
