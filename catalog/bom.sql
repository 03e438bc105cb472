-- Returns the bill of materials of one piece of a product through all levels, as the text of a jsonb that can be
-- compared with a later bill. needs has the grams of each filament and the pieces of each component. Its keys do not
-- depend on the spelling of names: the key of a filament is an object, and the key of a component is its id. names
-- maps the same keys to names for people. Materials that are not required do not count. The result is null for a bill
-- of more than 100,000 characters. If alone is true, components do not count either.
create or replace function product_bom(product uuid, alone boolean default false) returns text
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	bom text;
begin
	select jsonb_build_object('needs', coalesce(jsonb_object_agg(n.key, n.amount), '{}'),
		'names', coalesce(jsonb_object_agg(n.key, n.name), '{}'))
	into bom
	from (
		select (m.filament - '{grams,color,material_name,diameter_mm}'::text[])::text as key,
			trim_scale(least(round(m.grams, 6), 999999999)) as amount,
			material_label(m.filament ->> 'material_type', m.filament ->> 'material_name') || ' ' || (m.filament ->> 'color')
				|| case when (m.filament ->> 'diameter_mm')::numeric <> 1.75 then ' ' || (m.filament ->> 'diameter_mm') || ' mm'
					else '' end as name
		from (
			select to_jsonb(e) as filament, e.grams from explode_products(array[product], array[1::numeric],
				array[alone]) e
		) m
		union all
		select u.id::text, trim_scale(least(u.total, 999999999)), p.name
		from explode_pieces(array[product], array[1::numeric], array[alone]) u
		join products p on p.id = u.id
		where u.id <> product
	) n;
	return case when length(bom) <= 100000 then bom end;
end $$;
