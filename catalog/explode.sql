-- Returns the products that are needed for pieces[n] pieces of each product ids[n]: the product itself and its
-- components through all levels. The result has one row for each product, with the number of pieces, in no particular
-- order. ids may contain a product several times. If alone[n] is true, the components of ids[n] are not needed.
--
-- The loop visits the products from the highest level down, so that each product is read once, however many paths
-- lead to it.
create or replace function explode_pieces(ids uuid[], pieces numeric[], alone boolean[] default '{}')
returns table (id uuid, total numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
	all_ids uuid[] := '{}';
	all_pieces numeric[] := '{}';
	level_ids uuid[];
	level_pieces numeric[];
begin
	if cardinality(alone) > 0 then
		select coalesce(array_agg(e.id) filter (where e.alone), '{}'),
			coalesce(array_agg(e.pieces) filter (where e.alone), '{}'),
			array_agg(e.id) filter (where e.alone is not true), array_agg(e.pieces) filter (where e.alone is not true)
		into all_ids, all_pieces, ids, pieces
		from unnest(ids, pieces, alone) e (id, pieces, alone);
	end if;
	while cardinality(ids) > 0 loop
		with pending as materialized (
			select u.id, u.pieces, p.levels
			from (select e.id, sum(e.pieces) as pieces from unnest(ids, pieces) e (id, pieces) group by e.id) u
			cross join lateral (select p.levels from products p where p.id = u.id offset 0) p
		), top as materialized (
			select n.id, n.pieces from pending n where n.levels = (select max(m.levels) from pending m)
		), below as (
			select n.id, n.pieces from pending n where n.levels < (select max(m.levels) from pending m)
			union all
			select c.component_product_id, t.pieces * c.quantity from top t cross join lateral (
				select c.component_product_id, c.quantity from product_components c where c.product_id = t.id offset 0
			) c
		)
		select (select array_agg(t.id order by t.id) from top t), (select array_agg(t.pieces order by t.id) from top t),
			array_agg(b.id), array_agg(b.pieces)
		into level_ids, level_pieces, ids, pieces
		from below b;
		all_ids := all_ids || level_ids;
		all_pieces := all_pieces || level_pieces;
	end loop;

	return query
		select e.id, sum(e.pieces) from unnest(all_ids, all_pieces) e (id, pieces) group by e.id;
end $$;

-- Returns the filament that pieces of products and of their components need: one row for each material key, color
-- key and filament, in no particular order. Materials that are not required do not count. filament_id is null if any
-- filament of the material and color will do. material_name and color have the spelling found first. alone has the
-- same meaning as in explode_pieces.
create or replace function explode_products(ids uuid[], pieces numeric[], alone boolean[] default '{}')
returns table (material_key text, color_key text, filament_id uuid, material_type text, material_name text,
	diameter_mm numeric, color text, grams numeric)
language plpgsql stable as $$
declare
	usual numeric := usual_diameter();
begin
	return query
		select m.material_key, m.color_key, m.filament_id, min(m.material_type), min(nullif(m.material_name, '')),
			min(m.diameter), min(m.color), sum(m.weight_grams * u.total)
		from explode_pieces(ids, pieces, alone) u
		cross join lateral (
			select *, coalesce(m.diameter_mm, usual) as diameter,
				material_key(m.material_type, m.material_name, coalesce(m.diameter_mm, usual)) as material_key
			from product_materials m where m.product_id = u.id and m.is_required offset 0
		) m
		group by m.material_key, m.color_key, m.filament_id;
end $$;

-- Returns the filament, the time to print and the work for pieces of products with their components. grams is null
-- if no product has a required material. minutes is null if a product has no estimated print time. A product that has
-- components and no materials needs none: it is only assembled. labour_minutes is null if the work of a product is
-- unknown. alone has the same meaning as in explode_pieces.
create or replace function estimate_products(ids uuid[], pieces numeric[], alone boolean[] default '{}')
	returns table (grams numeric, minutes numeric, labour_minutes numeric)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
	return query
		select sum(m.grams * u.total), case when bool_and(t.minutes is not null) then sum(t.minutes * u.total) end,
			case when bool_and(t.labour_minutes is not null) then sum(t.labour_minutes * u.total) end
		from explode_pieces(ids, pieces, alone) u
		cross join lateral (
			select sum(m.weight_grams) as grams from product_materials m where m.product_id = u.id and m.is_required
		) m
		cross join lateral (
			select coalesce(p.estimated_print_time_minutes, case when m.grams is null and exists (
				select from product_components c where c.product_id = p.id) then 0 end) as minutes, p.labour_minutes
			from products p where p.id = u.id offset 0
		) t;
end $$;

-- Copies the material, color and diameter of a filament to a material of a product that names the filament. If the
-- material has different values, the function raises a violation of the check product_materials_filament_field. If
-- the filament does not exist, or is hidden and was not the material's filament before, it raises a violation of
-- product_materials_filament. Neither is a constraint of the table; the detail of the error is the id of the
-- material. The materials of variants are copies, which derive_variants makes again.
--
-- The filament is locked for share, so that it neither changes nor is removed before the end of the transaction.
create or replace function product_material_follows() returns trigger language plpgsql as $$
declare
	f filaments;
begin
	if new.filament_id is null then
		return new;
	end if;
	select l.* into f from filaments l where l.tenant_id = new.tenant_id and l.id = new.filament_id
		and (l.hidden_at is null or tg_op = 'UPDATE' and old.filament_id = new.filament_id
			or tg_op = 'INSERT' and new.created_at < now()) -- an older row, which an archive contains
		for share;
	if not found then
		raise exception 'no such filament' using errcode = 'foreign_key_violation',
			constraint = 'product_materials_filament', detail = new.id;
	end if;
	f.material_name := nullif(f.material_name, '');
	-- Columns that an update does not change, or that an insert leaves out, follow the filament.
	if tg_op = 'UPDATE' then
		if (new.material_type <> old.material_type and new.material_type <> f.material_type)
			or (new.material_name is distinct from old.material_name
				and new.material_name is distinct from f.material_name)
			or (new.color <> old.color and lower(new.color collate "und-x-icu") <> f.color_key)
			or (new.diameter_mm is distinct from old.diameter_mm and new.diameter_mm is distinct from f.diameter_mm)
		then
			raise exception 'not the filament' using errcode = 'check_violation',
				constraint = 'product_materials_filament_field', detail = new.id;
		end if;
	elsif new.material_type <> f.material_type or new.material_name is not null
			and new.material_name is distinct from f.material_name
		or lower(new.color collate "und-x-icu") <> f.color_key or new.diameter_mm <> f.diameter_mm then
		raise exception 'not the filament' using errcode = 'check_violation',
			constraint = 'product_materials_filament_field', detail = new.id;
	end if;
	new.material_type := f.material_type;
	new.material_name := f.material_name;
	new.color := f.color;
	new.diameter_mm := f.diameter_mm;
	return new;
end $$;
create or replace trigger product_material_follows before insert or update on product_materials
	for each row when (new.filament_id is not null and new.follows is null) execute function product_material_follows();

-- Copies a changed filament to the materials of products, and updates the version of these products and of their
-- variants.
create or replace function filament_materials() returns trigger language plpgsql as $$
declare
	ids uuid[];
begin
	with changed as (
		update product_materials m
		set material_type = new.material_type, material_name = nullif(new.material_name, ''), color = new.color,
			diameter_mm = new.diameter_mm
		where m.tenant_id = new.tenant_id and m.filament_id = new.id and m.follows is null
		returning m.product_id
	)
	select array_agg(distinct c.product_id) into ids from changed c;
	ids := ids || array(
		select e.variant_id from variant_materials e where e.tenant_id = new.tenant_id and e.filament_id = new.id);
	perform derive_variants(ids, false); -- which locks the products in order
	update products p set updated_at = now()
	where p.tenant_id = new.tenant_id and p.id = any (ids) and p.variant_of is null;
	return null;
end $$;
create or replace trigger filament_materials after update on filaments
	for each row when (row(old.material_type, old.material_name, old.color, old.diameter_mm)
		is distinct from row(new.material_type, new.material_name, new.color, new.diameter_mm))
	execute function filament_materials();
