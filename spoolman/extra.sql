-- Returns custom fields as the JSON of the Spoolman API: each value becomes a text that contains JSON. Most rows have
-- no custom fields, and a statement with a subquery instead of this function costs them more than the function costs
-- others.
create or replace function extra_texts(extra jsonb) returns text language plpgsql immutable parallel safe as $$
begin
	return (select jsonb_object_agg(e.key, e.value::text)::text from jsonb_each(extra_texts.extra) e);
end $$;
