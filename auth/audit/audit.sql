-- Adds an entry to the audit log of the owner, or else of the tenant of the transaction. The actor is the person, or
-- else the user or API key of the transaction. A superuser who changes rows by hand counts as the command line. The
-- program receives the entry in the message with the SQLSTATE SW300, and logs it after the commit.
create or replace function audit_add(what text, kind text default null, object uuid default null,
	called text default null, changed text[] default '{}', person uuid default null, owner uuid default null) returns void
language plpgsql as $$
declare
	tenant uuid := coalesce(owner, nullif(current_setting('app.tenant_id', true), '')::uuid);
	origin text := coalesce(current_setting('app.origin', true), '');
	by_user uuid := coalesce(person, nullif(current_setting('app.user_id', true), '')::uuid);
	by_key uuid := nullif(current_setting('app.api_key_id', true), '')::uuid;
	e audit_log;
begin
	e.tenant_id := tenant;
	e.id := uuid_v7();
	e.created_at := clock_timestamp(); -- the entries of one transaction are listed in their order
	e.action := what;
	e.actor_kind := case when by_user is not null then 'user' when by_key is not null then 'api_key'
		when origin = 'command line' or origin = '' and current_user <> 'spoolwright_app' then 'command_line'
		when origin = '' then 'service' else 'unknown' end;
	e.actor_id := coalesce(by_user, by_key);
	e.actor_name := coalesce((select u.name from users u where u.tenant_id = tenant and u.id = by_user),
		(select u.name from former_users u where u.tenant_id = tenant and u.id = by_user),
		(select k.name from api_keys k where k.tenant_id = tenant and k.id = by_key and by_user is null));
	e.address := nullif(origin, 'command line');
	if e.address = '' then
		e.address := null;
	end if;
	e.object_kind := kind;
	e.object_id := object;
	e.object_name := left(called, 200);
	e.fields := changed;
	insert into audit_log select e.*;
	raise info using message = to_jsonb(e)::text, errcode = 'SW300';
end $$;

-- Adds an entry for a change of a row. The first argument of the trigger is the kind of the object, and the second one
-- lists the columns that an entry may name, separated by commas; "column:field" gives a column its name in the API. A
-- change of other columns alone adds no entry. The entry has no values, so that it cannot reveal a secret.
create or replace function audit_change() returns trigger language plpgsql as $$
declare
	kind text := tg_argv[0];
	before jsonb := '{}';
	after jsonb := '{}';
	r jsonb;
	changed text[] := '{}';
	what text;
	called text;
	person uuid;
begin
	if tg_op <> 'INSERT' then
		before := to_jsonb(old);
	end if;
	if tg_op <> 'DELETE' then
		after := to_jsonb(new);
	end if;
	r := case when tg_op = 'DELETE' then before else after end;
	if tg_op = 'UPDATE' then
		select coalesce(array_agg(coalesce(nullif(split_part(f, ':', 2), ''), f) order by n), '{}') into changed
		from unnest(string_to_array(tg_argv[1], ',')) with ordinality t (f, n)
		where before -> split_part(f, ':', 1) is distinct from after -> split_part(f, ':', 1);
		if changed = '{}' then
			return null;
		end if;
		what := case
			when changed && '{removed}' then case when r ->> 'hidden_at' is null then 'restored' else 'removed' end
			when changed && '{disabled}' then case when r ->> 'disabled_at' is null then 'enabled' else 'disabled' end
			when changed && '{revoked}' then 'revoked'
			when changed && '{password_link}' and r ->> 'link_hash' is null and changed && '{password}'
				and coalesce(current_setting('app.user_id', true), '') = '' and before ->> 'link_hash' is not null
				and coalesce(current_setting('app.origin', true), '') <> 'command line' then 'password_set_by_link'
			when changed && '{password}' then 'password_changed'
			when changed && '{password_link}' and r ->> 'link_hash' is not null then 'password_link_created'
			when changed && '{otp_enabled}' then case when r ->> 'otp_at' is not null then 'otp_enabled'
				when r ->> 'id' = current_setting('app.user_id', true) then 'otp_disabled' else 'otp_reset' end
			when changed && '{secret}' then 'rotated'
			else 'changed'
		end;
		if changed = '{password_link}' and r ->> 'link_hash' is null then
			return null;
		end if;
		changed := array_remove(changed, 'password_link');
		if what in ('removed', 'restored') then
			changed := '{}';
		end if;
	else
		what := case tg_op when 'INSERT' then 'created' else 'removed' end;
		-- Samples leave no entries.
		if tg_op = 'DELETE' and exists (select from sample_rows s
				where s.tenant_id = (r ->> 'tenant_id')::uuid and s.id = (r ->> 'id')::uuid) then
			return null;
		end if;
	end if;
	if what = 'password_set_by_link' then
		person := (r ->> 'id')::uuid;
	end if;
	called := case kind
		when 'spool' then concat_ws(' ', '#' || (r ->> 'number'), coalesce(r ->> 'material_name', r ->> 'material_type'),
			r ->> 'color')
		when 'filament' then concat_ws(' ', '#' || (r ->> 'number'), coalesce(r ->> 'material_name', r ->> 'material_type'),
			r ->> 'color')
		when 'stock_level' then concat_ws(' ', coalesce(r ->> 'material_name', r ->> 'material_type'), r ->> 'color')
		when 'order' then concat_ws(' ', r ->> 'source', r ->> 'reference')
		when 'run' then r ->> 'printer_name'
		when 'webhook' then coalesce(r ->> 'description', r ->> 'format')
		when 'printer_connection' then r ->> 'kind'
		when 'sign_on' then r ->> 'issuer'
		else r ->> 'name'
	end;
	perform audit_add(kind || '.' || what, kind,
		case when kind not in ('settings', 'sign_on') then (r ->> 'id')::uuid end, nullif(called, ''),
		changed, person, (r ->> 'tenant_id')::uuid);
	return null;
end $$;

create or replace trigger audit_changed
	after insert or delete or update of name, role, language, password_hash, disabled_at, link_hash, otp_at,
		sign_on_subject
	on users for each row execute function audit_change('user',
		'email,name,role,language,password_hash:password,disabled_at:disabled,link_hash:password_link,otp_at:otp_enabled,'
		'sign_on_subject:sign_on');
create or replace trigger audit_changed
	after insert or delete or update of name, role, expires_at, printer_id, revoked_at, hash
	on api_keys for each row execute function audit_change('api_key',
		'name,role,expires_at,printer_id,revoked_at:revoked,hash:secret');
create or replace trigger audit_changed after update on tenants for each row execute function audit_change('settings',
	'name,time_zone,currency,labour_hour_cost,machine_hour_cost,machine_power_watts,energy_kwh_cost,'
	'failure_rate_percent,failure_rate_measured,sales_tax_percent,prices_include_tax,exchange_rates,'
	'assemble_on_delivery,confirm_runs,second_factor,farm_url,language');
-- A new encryption of the same secret adds no entry: previous_until changes only when the secret is replaced.
create or replace trigger audit_changed
	after insert or delete or update of url, events, description, format, daily, disabled_at, previous_until
	on webhooks for each row execute function audit_change('webhook',
		'url,events,description,format,daily,disabled_at:disabled,previous_until:secret');
create or replace trigger audit_changed after insert or delete or update
	on sign_on_providers for each row execute function audit_change('sign_on',
		'issuer,client_id,secret_at:secret,email_domain,role_claim,admin_value,operator_value,viewer_value,factors,'
		'required');
create or replace trigger audit_changed after insert or delete or update of name, kind, previous_until
	on shops for each row execute function audit_change('shop', 'name,kind,previous_until:secret');
create or replace trigger audit_changed after insert or delete or update
	on printer_connections for each row execute function audit_change('printer_connection',
		'kind,address,secret,serial,fingerprint');
create or replace trigger audit_changed after insert or delete or update of name, model, location, notes, nozzle_mm,
		diameter_mm, slots, materials, hour_cost, power_watts, maintenance_interval_hours, hidden_at
	on printers for each row execute function audit_change('printer',
		'name,model,location,notes,nozzle_mm,diameter_mm,slots,materials,hour_cost,power_watts,maintenance_interval_hours,'
		'hidden_at:removed');
create or replace trigger audit_changed after insert or delete or update on custom_fields
	for each row execute function audit_change('custom_field', 'name,position,unit,default_value,choices');

-- Adds an entry when a user uses a recovery code or gets new ones. The codes of the set-up are part of its entry.
create or replace function audit_recovery_codes() returns trigger language plpgsql as $$
declare
	used boolean := old.recovery_hashes @> new.recovery_hashes;
begin
	perform audit_add(case when used then 'user.recovery_code_used' else 'user.recovery_codes_renewed' end, 'user', u.id,
		u.name, '{}', u.id, u.tenant_id)
	from users u where u.tenant_id = new.tenant_id and u.id = new.user_id and u.otp_at is not null;
	return null;
end $$;
create or replace trigger audit_changed after update of recovery_hashes on user_otps for each row
	when (old.recovery_hashes is distinct from new.recovery_hashes and old.recovery_hashes <> '{}')
	execute function audit_recovery_codes();

-- The log has only the removals of other resources.
do $$
declare
	t record;
begin
	for t in select * from (values ('spools', 'spool', false), ('filaments', 'filament', true),
		('vendors', 'vendor', true), ('products', 'product', false), ('orders', 'order', false),
		('production_runs', 'run', true)) v (name, kind, deleted)
	loop
		execute format('create or replace trigger audit_hidden after update of hidden_at on %I
			for each row when (old.hidden_at is distinct from new.hidden_at)
			execute function audit_change(%L, %L)', t.name, t.kind, 'hidden_at:removed');
		if t.deleted then
			execute format('create or replace trigger audit_deleted after delete on %I
				for each row execute function audit_change(%L)', t.name, t.kind);
		end if;
	end loop;
end $$;
create or replace trigger audit_deleted after delete on stock_levels
	for each row execute function audit_change('stock_level');

-- Adds an entry for a wrong password or code of a user. what is sign_in.failed or user.otp_failed. After ten entries
-- in an hour, one more entry reports further failures, and no other entries are added in that hour.
create or replace function audit_failed_sign_in(account uuid, what text) returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	more text := case what when 'sign_in.failed' then 'sign_in.more_failed' else 'user.more_otp_failed' end;
	n int;
begin
	perform pg_advisory_xact_lock(hashtextextended('failed sign-in ' || account, 0));
	select count(*) into n from audit_log l where l.tenant_id = tenant and l.actor_id = account
		and l.created_at > now() - interval '1 hour' and l.action in (what, more);
	if n <= 10 then
		perform audit_add(case when n < 10 then what else more end, 'user', account, u.name, '{}', account)
		from users u where u.tenant_id = tenant and u.id = account;
	end if;
end $$;

-- Deletes the entries of the tenant that are older than 400 days, at most 1,000, and returns their number. The service
-- has no privilege to delete others.
create or replace function audit_trim() returns bigint
language sql security definer set search_path = public, pg_temp as $$
	with old as (
		select l.tenant_id, l.id from audit_log l
		where l.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and l.created_at < now() - interval '400 days'
		order by l.created_at limit 1000
	), deleted as (
		delete from audit_log l using old o where l.tenant_id = o.tenant_id and l.id = o.id returning 1
	)
	select count(*) from deleted
$$;
revoke all on function audit_trim from public;
grant execute on function audit_trim to spoolwright_app;
