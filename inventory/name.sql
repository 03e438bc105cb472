-- Returns the name of a spool in answers about something else, such as "PLA Black (Polymaker)".
create or replace function spool_name(material_type text, color text, brand text) returns text
language sql immutable parallel safe as $$
	select material_type || ' ' || color || coalesce(' (' || nullif(brand, '') || ')', '')
$$;
