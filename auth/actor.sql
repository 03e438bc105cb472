-- Returns the name of an API key or of a user, including deleted users.
create or replace function actor_name(actor uuid) returns text language sql stable as $$
	select coalesce((select u.name from users u where u.id = actor),
		(select u.name from former_users u where u.id = actor), (select k.name from api_keys k where k.id = actor))
$$;
