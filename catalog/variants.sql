-- A variant is a product that follows another one, its product, in all but its SKU, its picture, its name and price if
-- it has its own, and what variant_materials replaces. Its rows in products, product_materials and
-- product_components are copies, so that stock, plans, costs and orders treat it like every product. Its plates are
-- copies of the product's plates, whose variant_of is the product's plate. derive_variants makes all copies again.
--
-- Functions raise violations that are not constraints of a table. Their detail begins with the n of a row, or 0:
--   products_variant_field      fields that follow the product have other values; then come their names
--   products_variant_list       materials, components or plates of a variant cannot change
--   products_variant_unknown    variant_of names no product
--   products_variant_nested     variant_of names a variant or a plate
--   products_variant_none       variant_materials of a product that is no variant
--   products_variant_limit      too many variants, copies, or products that change with a filament
--   products_variant_filament, _color, _twice, _nothing, of the entry of variant_materials whose index comes then: its
--                               filament is unknown or has another color; it is there twice; it replaces nothing
create or replace function raise_variant(violation text, detail text) returns void language plpgsql as $$
begin
	raise exception 'variant' using errcode = 'check_violation', constraint = 'products_variant_' || violation,
		detail = detail;
end $$;

-- Returns the colors of a variant, such as "Blue / Gold", or null.
create or replace function variant_colors(variant uuid) returns text language sql stable as $$
	select left(string_agg(c.color, ' / ' order by c.n), 150) from (
		select min(e.n) as n, min(coalesce(f.color, e.color)) as color
		from variant_materials e left join filaments f on f.id = e.filament_id
		where e.variant_id = variant group by lower(coalesce(f.color, e.color))
	) c
$$;

-- Locks the products of these variants, and the products with these ids that are none, before a statement changes
-- variants: whatever changes a product and its variants has locked the product first. Returns the products' ids.
create or replace function lock_bases(ids uuid[]) returns uuid[] language plpgsql as $$
declare
	bases uuid[];
begin
	select array_agg(l.id) into bases from (
		select distinct coalesce(o.variant_of, o.id) as id from (
			select distinct coalesce(p.plate_of, p.id) as id from unnest(ids) i (id) cross join lateral (
				select p.id, p.plate_of from products p where p.id = i.id offset 0
			) p offset 0
		) p cross join lateral (select o.id, o.variant_of from products o where o.id = p.id offset 0) o
		order by 1
	) b cross join lateral (select p.id from products p where p.id = b.id for no key update) l;
	return bases;
end $$;

-- Reports whether an entry of variant_materials with the type and the color, or null for any, replaces a material. What
-- is printed as support is replaced only by its type.
create or replace function replaces(kind text, key text, m product_materials) returns boolean language sql immutable as $$
	select coalesce(key, m.color_key) = m.color_key and (kind = m.material_type or kind is null
		and m.material_type not in ('PVA', 'HIPS') and coalesce(m.material_name, '') !~* 'bvoh')
$$;

-- Copies the fields of products to these variants or plates of variants. Without its own name, a variant has that of its
-- product with its colors, and a plate those of its variant and of the product's plate.
create or replace function follow_fields(variants uuid[]) returns void language plpgsql as $$
declare
	n record;
begin
	for n in
		select v.id, coalesce(v.variant_name, t.title) as name, nullif(v.variant_name, t.title) as variant_name,
			coalesce(v.variant_price, b.selling_price) as selling_price, case when exists (
				select from product_pictures i where i.product_id = v.id) then v.picture_version else b.picture_version
			end as picture_version, b.plate, b.description, b.category, b.estimated_print_time_minutes, b.labour_minutes,
			b.pieces_per_plate, b.minimum_pieces, b.location, b.notes, b.file_name, b.file_sha256, b.sliced_by,
			b.printer_model, b.nozzle_mm, b.layer_height_mm
		from unnest(variants) u (id)
		cross join lateral (select * from products v where v.id = u.id offset 0) v
		cross join lateral (select * from products b where b.id = v.variant_of offset 0) b
		left join lateral (select p.name from products p where p.id = b.plate_of offset 0) p on true
		left join lateral (select o.name from products o where o.id = v.plate_of offset 0) o on true
		cross join lateral (select case when v.plate_of is null then coalesce(', ' || variant_colors(v.id), '') end as suffix
			offset 0) c
		cross join lateral (select coalesce(left(b.name, 200 - length(c.suffix)) || c.suffix,
			left(o.name || ', ' || plate_name(p.name, b.name), 200)) as title offset 0) t
	loop
		update products v
		set (name, variant_name, selling_price, picture_version, plate, description, category,
				estimated_print_time_minutes, labour_minutes, pieces_per_plate, minimum_pieces, location, notes, file_name,
				file_sha256, sliced_by, printer_model, nozzle_mm, layer_height_mm, updated_at) =
			row(n.name, n.variant_name, n.selling_price, n.picture_version, n.plate, n.description, n.category,
				n.estimated_print_time_minutes, n.labour_minutes, n.pieces_per_plate, n.minimum_pieces, n.location, n.notes,
				n.file_name, n.file_sha256, n.sliced_by, n.printer_model, n.nozzle_mm, n.layer_height_mm, now())
		where v.id = n.id and row(v.id, v.name, v.variant_name, v.selling_price, v.picture_version, v.plate, v.description,
			v.category, v.estimated_print_time_minutes, v.labour_minutes, v.pieces_per_plate, v.minimum_pieces, v.location,
			v.notes, v.file_name, v.file_sha256, v.sliced_by, v.printer_model, v.nozzle_mm, v.layer_height_mm)
			is distinct from n;
	end loop;
end $$;

-- Copies the components of products to these variants or plates of variants, and returns the ids of those that
-- differed. A plate of the product is replaced by that of the variant.
create or replace function follow_components(variants uuid[]) returns setof uuid language sql as $$
	with part as materialized (
		select v.id as product, coalesce(y.id, c.component_product_id) as id, c.quantity, c.notes, c.created_at
		from unnest(variants) u (id)
		cross join lateral (select v.id, v.variant_of from products v where v.id = u.id offset 0) v
		cross join lateral (select * from product_components c where c.product_id = v.variant_of offset 0) c
		left join lateral (
			select y.id from products y where y.variant_of = c.component_product_id and y.plate_of = v.id offset 0) y on true
	), gone as (
		delete from product_components c where c.product_id = any (variants)
			and (c.product_id, c.component_product_id) not in (select p.product, p.id from part p)
		returning c.product_id
	), made as (
		insert into product_components as c (id, product_id, component_product_id, quantity, notes, created_at)
		select uuid_v7(), p.product, p.id, p.quantity, p.notes, p.created_at from part p order by p.created_at
		on conflict (tenant_id, product_id, component_product_id) do update
		set quantity = excluded.quantity, notes = excluded.notes
		where (c.quantity, c.notes) is distinct from (excluded.quantity, excluded.notes)
		returning c.product_id
	)
	select g.product_id from gone g union select m.product_id from made m
$$;

-- Keeps the colors of variants whose product has other materials than when the variants were derived: the entry of
-- variant_materials that replaced a material follows it to its new color and type, or is copied if it also replaces
-- another material. A material that is new in place of one that is gone counts as the same: those of a type go and come
-- in their order. With a new type, the color of a filament stays, but not the filament.
create or replace function keep_colors(variants uuid[]) returns void language sql as $$
	with before as materialized (
		select v.id as variant, t.follows as id, t.entry, t.color_key as key,
			coalesce(e.replaces_material_type, t.material_type) as kind, row(y.plate, t.created_at, t.follows) as place,
			b.id is null as absent,
			t.entry is not null and not replaces(e.replaces_material_type, e.replaces_key, m.m) as moved
		from unnest(variants) v (id)
		cross join lateral (
			select y.id, y.plate from products y where y.id = v.id
			union all select y.id, y.plate from products y where y.plate_of = v.id and y.hidden_at is null
		) y
		cross join lateral (select * from product_materials t where t.product_id = y.id offset 0) t
		left join lateral (
			select * from variant_materials e where e.variant_id = v.id and e.n = t.entry offset 0) e on true
		left join lateral (select m from product_materials m where m.id = t.follows offset 0) m on true
		left join lateral (
			select b.id from products b where b.id = (m.m).product_id and b.hidden_at is null offset 0) b on true
	), now as materialized (
		select v.id as variant, m.id, m::product_materials as material, m.material_type as kind, m.color_key as key,
			row(p.plate, m.created_at, m.id) as place
		from (select distinct b.variant as id from before b where b.absent or b.moved) k
		cross join lateral (select v.id, v.variant_of from products v where v.id = k.id offset 0) v
		cross join lateral (
			select b.id, b.plate from products b where b.id = v.variant_of
			union all select b.id, b.plate from products b where b.plate_of = v.variant_of and b.hidden_at is null
		) p
		cross join lateral (select * from product_materials m where m.product_id = p.id offset 0) m
	), absent as materialized (
		select * from before b where b.absent
	), gone as materialized (
		select b.variant, b.entry, b.kind, row_number() over (partition by b.variant, b.kind order by b.place) as i
		from absent b left join variant_materials e on e.variant_id = b.variant and e.n = b.entry
		where not exists (select from now n where n.variant = b.variant and case when e.n is null
				then (n.kind, n.key) = (b.kind, b.key) else replaces(e.replaces_material_type, e.replaces_key, n.material) end)
	), come as (
		select n.variant, n.id, n.kind, row_number() over (partition by n.variant, n.kind order by n.place) as i
		from (select * from now n where exists (select from absent)
			and not exists (select from before b where b.variant = n.variant and b.id = n.id) offset 0) n
		where not exists (select from absent b
				where b.variant = n.variant and b.entry is null and (b.kind, b.key) = (n.kind, n.key))
			and not exists (select from variant_materials e where e.variant_id = n.variant and e.replaces_key is not null
				and replaces(e.replaces_material_type, e.replaces_key, n.material))
	), moved as materialized (
		select distinct on (n.variant, k.kind, k.color_key) n.variant, e.n, e.replaces_material_type, k.kind, k.color,
			e.filament_id, e.color as own,
			exists (select from now o where o.variant = n.variant
				and replaces(e.replaces_material_type, e.replaces_key, o.material)) as used
		from (
			select b.variant, b.entry, b.id from before b where b.moved
			union all select g.variant, g.entry, c.id from gone g join come c using (variant, kind, i)
		) b
		join now n using (variant, id)
		join variant_materials e on e.variant_id = b.variant and e.n = b.entry
		cross join lateral (select case when e.replaces_material_type is not null then n.kind end as kind,
			case when e.replaces_key is not null then n.key end as color_key,
			case when e.replaces_key is not null then (n.material).color end as color) k
		where not replaces(e.replaces_material_type, e.replaces_key, n.material)
			and replaces(k.kind, k.color_key, n.material) and not exists (
				select from variant_materials s where s.variant_id = n.variant and s.n <> e.n
					and (s.replaces_key is not null or e.replaces_key is null)
					and replaces(s.replaces_material_type, s.replaces_key, n.material))
		order by n.variant, k.kind, k.color_key, e.n
	), followed as (
		select m.variant, m.n, m.kind, m.color as replaces_color,
			case when m.kind = m.replaces_material_type then f.id end as filament,
			case when m.kind = m.replaces_material_type then m.own else coalesce(m.own, f.color) end as color,
			m.used or row_number() over (partition by m.variant, m.n order by m.kind, m.color) > 1 as copied
		from moved m left join filaments f on f.id = m.filament_id
	), updated as (
		update variant_materials e
		set (replaces_material_type, replaces_color, filament_id, color) = row(f.kind, f.replaces_color, f.filament, f.color)
		from followed f where not f.copied and e.variant_id = f.variant and e.n = f.n
	)
	insert into variant_materials (variant_id, n, replaces_material_type, replaces_color, filament_id, color)
	select f.variant, (select max(e.n) from variant_materials e where e.variant_id = f.variant)
		+ row_number() over (partition by f.variant order by f.n, f.kind, f.replaces_color), f.kind, f.replaces_color,
		f.filament, f.color
	from followed f where f.copied
$$;

-- Makes variants equal to their products but for what they have of their own, and recomputes the costs of those that
-- differed. roots are changed products, plates or variants: their variants follow them. Removed variants follow when
-- they are restored. The caller must hold the tenant's catalog lock; without it, the function copies neither components
-- nor costs.
create or replace function derive_variants(roots uuid[], locked boolean default true) returns void
language plpgsql set plan_cache_mode = force_custom_plan as $$
declare
	bases uuid[] := lock_bases(roots);
	owners uuid[] := array(select coalesce(p.plate_of, p.id) from products p where p.id = any (roots));
	variants uuid[];
	plates uuid[];
	touched uuid[];
begin
	variants := array(select v.id from products v where v.variant_of = any (bases) and v.plate_of is null
		and v.hidden_at is null and (v.variant_of = any (owners) or v.id = any (owners)));
	if cardinality(variants) = 0 then
		return;
	end if;
	perform raise_variant('limit', '0') from (
		select v.variant_of, count(*) as n from products v
		where v.variant_of = any (bases) and v.plate_of is null and v.hidden_at is null group by v.variant_of
	) v cross join lateral (
		select p.id from products p where p.id = v.variant_of
		union all select p.id from products p where p.plate_of = v.variant_of and p.hidden_at is null
	) p
	group by v.variant_of, v.n
	having v.n > 100 or v.n * sum((select count(*) from product_materials m where m.product_id = p.id)
		+ (select count(*) from product_components c where c.product_id = p.id)) > 10000;
	perform keep_colors(variants);

	with missing as materialized (
		select v.id as variant, v.number, x.id, x.plate, x.name from unnest(variants) u (id)
		cross join lateral (select v.id, v.number, v.variant_of from products v where v.id = u.id offset 0) v
		cross join lateral (
			select x.id, x.plate, x.name from products x where x.plate_of = v.variant_of and x.hidden_at is null
				and not exists (select from products y where y.variant_of = x.id and y.plate_of = v.id offset 0) offset 0
		) x
	)
	insert into products (id, number, variant_of, plate_of, plate, name)
	select uuid_v7(), f.number + row_number() over (order by m.number, m.plate) - 1, m.id, m.variant, m.plate, m.name
	from next_number('products', (select count(*) from missing)::int) f (number) cross join missing m;
	plates := array(
		select y.id from unnest(variants) u (id)
		cross join lateral (select * from products y where y.plate_of = u.id offset 0) y
		cross join lateral (select x.hidden_at from products x where x.id = y.variant_of offset 0) x
		where (x.hidden_at is null) <> (y.hidden_at is null));
	update products y set hidden_at = (select x.hidden_at from products x where x.id = y.variant_of)
	where y.id = any (plates);
	plates := array(select y.id from products y where y.plate_of = any (variants) and y.hidden_at is null);

	with made as materialized (
		select v.id as product_id, m.id as follows, e.n as entry,
			case when e.n is null then m.filament_id else f.id end as filament_id,
			case when f.id is null then m.material_type else f.material_type end as material_type,
			case when f.id is null then m.material_name else nullif(f.material_name, '') end as material_name,
			coalesce(f.color, e.color, m.color) as color,
			case when f.id is null then m.diameter_mm else f.diameter_mm end as diameter_mm,
			m.weight_grams, m.is_required, m.notes, m.created_at
		from unnest(variants || plates) u (id)
		cross join lateral (
			select v.id, v.variant_of, coalesce(v.plate_of, v.id) as owner from products v where v.id = u.id offset 0) v
		cross join lateral (select m.* from product_materials m where m.product_id = v.variant_of offset 0) m
		left join lateral (
			select e.n, e.color, e.filament_id from variant_materials e
			where e.variant_id = v.owner and replaces(e.replaces_material_type, e.replaces_key, m::product_materials)
			order by e.replaces_key is null, e.replaces_material_type is null limit 1
		) e on true
		left join lateral (select * from filaments f where f.id = e.filament_id offset 0) f on true
	), gone as (
		delete from product_materials t where t.product_id = any (variants || plates)
			and (t.product_id, t.follows) not in (select m.product_id, m.follows from made m)
		returning t.product_id
	), changed as (
		insert into product_materials as t (id, product_id, follows, entry, filament_id, material_type, material_name,
			color, diameter_mm, weight_grams, is_required, notes, created_at)
		select uuid_v7(), m.* from made m order by m.created_at, m.follows
		on conflict (tenant_id, product_id, follows) where follows is not null do update
		set (entry, filament_id, material_type, material_name, color, diameter_mm, weight_grams, is_required, notes) =
			row(excluded.entry, excluded.filament_id, excluded.material_type, excluded.material_name, excluded.color,
				excluded.diameter_mm, excluded.weight_grams, excluded.is_required, excluded.notes)
		where (t.entry, t.filament_id, t.material_type, t.material_name, t.color, t.diameter_mm, t.weight_grams,
			t.is_required, t.notes) is distinct from (excluded.entry, excluded.filament_id, excluded.material_type,
			excluded.material_name, excluded.color, excluded.diameter_mm, excluded.weight_grams, excluded.is_required,
			excluded.notes)
		returning t.product_id
	)
	select array(select g.product_id from gone g union select c.product_id from changed c) into touched;
	perform follow_fields(variants);
	perform follow_fields(plates); -- whose names begin with those of the variants
	if not locked then
		if cardinality(touched) > 5000 then
			perform raise_variant('limit', '0');
		end if;
		update products p set updated_at = now() where p.id = any (touched) and p.updated_at <> now();
		return;
	end if;
	-- Compute the costs of plates before variants contain them, so that the cost of a variant changes once.
	touched := touched || array(select follow_components(plates));
	perform recompute_costs(array(select unnest(touched) intersect select unnest(plates)), false);
	touched := touched || array(select follow_components(variants));
	perform recompute_costs(array(select unnest(touched) intersect select unnest(variants)), false);
end $$;

-- Returns the product of a new variant, by its id or its SKU.
create or replace function variant_base(id uuid, sku text) returns setof products language sql stable as $$
	select * from products b where b.hidden_at is null
		and (b.id = variant_base.id or variant_base.id is null and b.sku = variant_base.sku and b.sku <> '')
$$;

-- Returns the entries of variant_materials in the rows of write_variants, with their filaments.
create or replace function variant_entries(p_rows json) returns table (line int, variant uuid, n int, kind text,
	color text, key text, own text, named boolean, filament filaments) language sql stable as $$
	select r.n, r.id, x.n, coalesce(x.replaces_material_type, f.material_type), x.replaces_color,
		lower(x.replaces_color collate "und-x-icu") collate "C", x.color,
		coalesce(x.filament_id::text, x.filament_number::text) is not null, f
	from json_to_recordset(p_rows) r (n int, id uuid, variant_materials json)
	cross join json_to_recordset(coalesce(r.variant_materials, '[]')) x (n int, replaces_material_type text,
		replaces_color text, color text, filament_id uuid, filament_number int)
	left join filaments f on (f.id = x.filament_id or f.number = x.filament_number) and (f.hidden_at is null
		or exists (select from variant_materials e where e.variant_id = r.id and e.filament_id = f.id))
$$;

-- Adds and changes variants. p_rows has n, their order, and for each:
--   id                 of a variant or of one of its plates, or of a new variant
--   variant_of, variant_of_sku    the product of a new variant, by its id or its SKU
--   fields             the fields of the request. Only sku, name and selling_price can differ from the product
--   named              whether a new variant without a SKU gets that of its product with the colors
--   variant_materials  all its entries, or null to keep them
-- The caller must hold the tenant's catalog lock.
create or replace function write_variants(p_rows json) returns void language plpgsql as $$
declare
	ids uuid[] := array(select r.id from json_to_recordset(p_rows) r (id uuid));
	fresh uuid[] := array(select i.id from unnest(ids) i (id) where not exists (select from products v where v.id = i.id));
	bases uuid[];
begin
	perform raise_variant(case when b.id is null then 'unknown' else 'nested' end, r.n::text)
	from json_to_recordset(p_rows) r (n int, id uuid, variant_of uuid, variant_of_sku text)
	left join lateral variant_base(r.variant_of, r.variant_of_sku) b on true
	where r.id = any (fresh) and (b.id is null or b.variant_of is not null or b.plate_of is not null)
	order by r.n limit 1;
	perform raise_variant(case when v.variant_of is null and r.fields ->> 'variant_of' <> '' then 'field' else 'none' end,
		r.n || ' variant_of')
	from json_to_recordset(p_rows) r (n int, id uuid, fields jsonb, variant_materials json)
	join products v on v.id = r.id
	where v.variant_of is null or v.plate_of is not null and json_array_length(r.variant_materials) > 0
	order by r.n limit 1;

	perform raise_variant('limit', '0') from json_to_recordset(p_rows) r (variant_of text, variant_materials json)
	group by r.variant_of having sum(json_array_length(r.variant_materials)) > 2000;
	bases := array(
		select b.id from json_to_recordset(p_rows) r (id uuid, variant_of uuid, variant_of_sku text)
		join lateral variant_base(r.variant_of, r.variant_of_sku) b on true
		where r.id = any (fresh)
		union select v.variant_of from products v where v.id = any (ids));
	-- A change of a filament locks it, and then the products. One that changes meanwhile would not see the entries.
	perform from filaments f where f.id in (select (e.filament).id from variant_entries(p_rows) e) order by f.id for share;
	perform lock_bases(bases);
	insert into products (id, number, variant_of, name)
	select r.id, f.number + row_number() over (order by r.n) - 1, b.id, b.name
	from next_number('products', cardinality(fresh), cardinality(fresh)) f (number)
	cross join json_to_recordset(p_rows) r (n int, id uuid, variant_of uuid, variant_of_sku text)
	cross join lateral variant_base(r.variant_of, r.variant_of_sku) b
	where r.id = any (fresh);
	update products v
	set sku = case when r.fields ? 'sku' then r.fields ->> 'sku' else v.sku end,
		variant_name = case when r.fields ? 'name' then nullif(r.fields ->> 'name', '') else v.variant_name end,
		variant_price = case when r.fields ? 'selling_price'
			then nullif((r.fields ->> 'selling_price')::numeric, b.selling_price) else v.variant_price end
	from json_to_recordset(p_rows) r (id uuid, fields jsonb), products b
	where v.id = r.id and b.id = v.variant_of;

	perform raise_variant(e.problem, e.line || ' ' || e.n)
	from (
		with entries as materialized (select * from variant_entries(p_rows))
		select e.line, e.n, case when e.named and (e.filament).id is null then 'filament'
			when lower(e.own collate "und-x-icu") collate "C" <> (e.filament).color_key then 'color'
			when row_number() over (partition by e.variant, e.kind, e.key order by e.n) > 1 then 'twice'
			when not exists (select from variant_materials s where s.variant_id = e.variant
					and s.replaces_key is not distinct from e.key and s.replaces_material_type is not distinct from e.kind)
				and not exists (select from products p join product_materials m on m.product_id = p.id
					where (p.id = v.variant_of or p.plate_of = v.variant_of and p.hidden_at is null)
						and replaces(e.kind, e.key, m)) then 'nothing' end as problem
		from entries e join products v on v.id = e.variant
	) e
	where e.problem is not null order by e.line, e.n limit 1;
	insert into variant_materials (variant_id, n, replaces_material_type, replaces_color, color, filament_id)
	select e.variant, e.n, e.kind, e.color, case when e.named then null else e.own end, (e.filament).id
	from variant_entries(p_rows) e
	on conflict (tenant_id, variant_id, n) do update
	set (replaces_material_type, replaces_color, color, filament_id) =
		row(excluded.replaces_material_type, excluded.replaces_color, excluded.color, excluded.filament_id);
	delete from variant_materials e using json_to_recordset(p_rows) r (id uuid, variant_materials json)
	where e.variant_id = r.id and e.n >= json_array_length(r.variant_materials);
	-- Each material loses its former entry. An array, since the planner can join the tables in an order that takes seconds.
	update product_materials m set entry = null where m.entry is not null and m.product_id = any (array(
		select v.id from json_to_recordset(p_rows) r (id uuid, variant_materials json)
		cross join lateral (
			select r.id union all select y.id from products y where y.plate_of = r.id offset 0) v
		where json_array_length(r.variant_materials) >= 0));

	perform derive_variants(ids);

	perform raise_variant('field', c.n || ' ' || string_agg(c.key, ', ' order by c.key))
	from (
		select r.n, f.key
		from json_to_recordset(p_rows) r (n int, id uuid, fields jsonb) join products v on v.id = r.id
		cross join lateral (select to_jsonb(v) as now, to_jsonb(jsonb_populate_record(null::products, r.fields)) as wanted
			offset 0) o
		cross join jsonb_object_keys(r.fields) f (key)
		where f.key <> all ('{sku,name,selling_price}') and o.wanted -> f.key is distinct from o.now -> f.key
	) c
	group by c.n order by c.n limit 1;

	with named as materialized (
		select v.id, (left(b.sku, 100) || '-' || coalesce(nullif(trim('-' from left(upper(regexp_replace(
			variant_colors(v.id) collate "und-x-icu", '[^[:alnum:]]+', '-', 'g')), 80)), ''), v.number::text))
			collate "C" as sku
		from json_to_recordset(p_rows) r (id uuid, fields jsonb, named boolean)
		join products v on v.id = r.id join products b on b.id = v.variant_of
		where v.id = any (fresh) and r.named and not r.fields ? 'sku' and b.sku <> ''
	)
	update products v
	set sku = case when s.twice or exists (
			select from products o where o.sku = s.sku and o.sku <> '' and o.hidden_at is null)
		then s.sku || '-' || v.number else s.sku end
	from (select n.*, count(*) over (partition by n.sku) > 1 as twice from named n) s
	where v.id = s.id;
end $$;
