-- Detaches API keys from printers that are about to be deleted.
create or replace function forget_printers(ids uuid[]) returns void language sql as $$
	update api_keys k set printer_id = null
	where k.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and k.printer_id = any (ids)
$$;

-- Returns the name of an API key or of a user, including deleted users.
create or replace function actor_name(actor uuid) returns text language sql stable as $$
	select coalesce((select u.name from users u where u.id = actor),
		(select u.name from former_users u where u.id = actor), (select k.name from api_keys k where k.id = actor))
$$;
