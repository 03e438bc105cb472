-- Returns custom fields as the JSON of the Spoolman API: each value becomes a text that contains JSON. A subquery
-- instead of this function would be slower for rows without custom fields, and these are the majority.
create or replace function extra_texts(extra jsonb) returns text language plpgsql immutable parallel safe as $$
begin
	return (select jsonb_object_agg(e.key, e.value::text)::text from jsonb_each(extra_texts.extra) e);
end $$;
