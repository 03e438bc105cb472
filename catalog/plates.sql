-- Reports whether a product is nothing but its plates: it needs no filament of its own, and all its components are its
-- plates.
create or replace function is_plated(product uuid) returns boolean language sql stable as $$
	select coalesce(bool_and(p.plate_of is not distinct from product), false) and not exists (
		select from product_materials m where m.product_id = product and m.is_required)
	from product_components c
	join products p on p.id = c.component_product_id
	where c.product_id = product
$$;

-- Returns the name of a plate within its product: "plate 2" of the plate "Dragon, plate 2" of the product "Dragon".
create or replace function plate_name(product text, plate text) returns text language sql immutable as $$
	select case when starts_with(plate_name.plate, product || ', ') then substr(plate_name.plate, length(product) + 3)
		else plate_name.plate end
$$;

-- Renames the plates of a renamed product, whose names begin with that of the product.
create or replace function rename_plates() returns trigger language plpgsql as $$
begin
	update products p set name = left(new.name || substr(p.name, length(old.name) + 1), 200), updated_at = now()
	where p.plate_of = new.id and starts_with(p.name, old.name || ', ');
	return null;
end $$;
create or replace trigger plates_renamed after update of name on products
	for each row when (new.plate_of is null and new.variant_of is null and old.name <> new.name)
	execute function rename_plates();

-- Returns the number of a new plate of a product that has plates with the numbers beside: the highest plus one or,
-- beyond the maximum, the lowest free number.
create or replace function next_plate(beside int[]) returns int language sql immutable as $$
	select case when coalesce(max(b.n), 0) < 1000000 then coalesce(max(b.n), 0) + 1
		else (select min(f.n) from generate_series(1, 1 + cardinality(beside)) f (n) where f.n <> all (beside)) end
	from unnest(beside) b (n)
$$;

-- Gives a plate the materials, and no others. Equal materials keep their rows.
create or replace function set_plate_materials(p_plate uuid, p_materials json) returns void language plpgsql as $$
declare
	material record;
	same uuid;
	kept uuid[] := '{}';
begin
	for material in
		select * from json_to_recordset(p_materials) x (n int, id uuid, filament_id uuid, filament_number int,
			material_type text, material_name text, color text, diameter_mm numeric, weight_grams numeric,
			is_required boolean, notes text) order by x.n
	loop
		if material.filament_number is not null then
			select f.id into material.filament_id from filaments f
			where f.number = material.filament_number and f.hidden_at is null;
			material.filament_id := coalesce(material.filament_id, '00000000-0000-0000-0000-000000000000');
		end if;
		select m.id into same from product_materials m
		where m.product_id = p_plate and m.id <> all (kept) and m.filament_id is not distinct from material.filament_id
			and (m.filament_id is not null and material.material_type is null
				or (m.material_type, m.color_key) = (material.material_type, lower(material.color collate "und-x-icu"))
				and m.material_name is not distinct from material.material_name
				and m.diameter_mm is not distinct from material.diameter_mm)
		order by m.created_at, m.id limit 1;
		if found then
			update product_materials m set weight_grams = material.weight_grams, is_required = material.is_required,
				notes = material.notes
			where m.id = same;
		else
			same := material.id;
			insert into product_materials (id, product_id, filament_id, material_type, material_name, color, diameter_mm,
				weight_grams, is_required, notes)
			values (same, p_plate, material.filament_id, material.material_type, material.material_name, material.color,
				material.diameter_mm, material.weight_grams, material.is_required, material.notes);
		end if;
		kept := kept || same;
	end loop;
	delete from product_materials m where m.product_id = p_plate and m.id <> all (kept);
end $$;

-- Gives a product the plates on which it is printed, and no others. The caller must hold the tenant's catalog lock,
-- and have created or changed the product in the same transaction.
--
-- p_plates has a row for each plate, in their order: id is the id of an existing plate of the product, or new_id that
-- of a new one. fields has the columns of the plate to change, quantity is the number of pieces of the plate in one
-- piece of the product, and materials are all materials of the plate; values that are null or missing stay. A plate
-- that is not in the list is hidden, and is no longer a component.
--
-- A product with plates is not printed itself: it loses its print time, its pieces per plate, and its required
-- materials.
--
-- Violations, which are not constraints of a table: products_plate_nested if the product is a plate itself,
-- products_plate_unknown for an id that is not a plate of the product, with the row as the detail, and
-- products_plate_twice if two plates have one number, which is the detail.
create or replace function set_plates(p_product uuid, p_plates json) returns uuid language plpgsql as $$
declare
	product products;
	row record;
	p products;
	fields jsonb;
	listed uuid[] := '{}';
	added uuid[] := '{}';
	twice int;
begin
	select * into product from products x where x.id = p_product;
	if product.plate_of is not null and json_array_length(p_plates) > 0 then
		raise exception 'a plate has no plates' using errcode = 'check_violation', constraint = 'products_plate_nested';
	end if;
	for row in
		select * from json_to_recordset(p_plates) x (n int, id uuid, new_id uuid, fields jsonb, quantity int,
			materials json) order by x.n
	loop
		fields := row.fields;
		if row.id is null then
			p := jsonb_populate_record(null::products, jsonb_build_object('plate', next_plate(array(
				select x.plate from products x where x.plate_of = p_product and (x.id = any (added)
					or x.id in (select k.id from json_to_recordset(p_plates) k (id uuid)))))));
			p := jsonb_populate_record(p, fields);
			p.name := product.name || ', ' || coalesce(fields ->> 'name', 'plate ' || p.plate);
			insert into products (id, plate_of, plate, name) values (row.new_id, p_product, p.plate, left(p.name, 200));
			added := added || row.new_id;
			p.id := row.new_id;
		else
			select * into p from products x where x.id = row.id and x.plate_of = p_product and x.hidden_at is null;
			if not found or row.id = any (listed) then
				raise exception 'not a plate' using errcode = 'foreign_key_violation', constraint = 'products_plate_unknown',
					detail = row.n;
			end if;
			listed := listed || row.id;
			p := jsonb_populate_record(p, fields);
			if fields ? 'name' then
				p.name := product.name || ', ' || coalesce(fields ->> 'name', 'plate ' || p.plate);
			end if;
		end if;
		update products x set plate = p.plate, name = left(p.name, 200),
			estimated_print_time_minutes = p.estimated_print_time_minutes, labour_minutes = p.labour_minutes,
			pieces_per_plate = p.pieces_per_plate, notes = p.notes, file_name = p.file_name, file_sha256 = p.file_sha256,
			sliced_by = p.sliced_by, printer_model = p.printer_model, nozzle_mm = p.nozzle_mm,
			layer_height_mm = p.layer_height_mm, updated_at = now()
		where x.id = p.id;
		if row.id is not null and row.quantity is not null then
			update product_components c set quantity = row.quantity
			where c.product_id = p_product and c.component_product_id = row.id;
		end if;
		if row.materials is not null then
			perform set_plate_materials(p.id, row.materials);
		end if;
	end loop;

	update products x set hidden_at = now(), updated_at = now(), plate_quantity = (
		select c.quantity from product_components c where c.product_id = p_product and c.component_product_id = x.id)
	where x.plate_of = p_product and x.hidden_at is null and x.id <> all (listed || added);
	delete from product_components c using products x
	where c.product_id = p_product and x.id = c.component_product_id and x.plate_of = p_product
		and x.id <> all (listed || added);
	select x.plate into twice from products x where x.plate_of = p_product and x.hidden_at is null
	group by x.plate having count(*) > 1 limit 1;
	if found then
		raise exception 'two plates with one number' using errcode = 'unique_violation',
			constraint = 'products_plate_twice', detail = twice;
	end if;
	if cardinality(listed || added) > 0 then
		update products x set estimated_print_time_minutes = null, pieces_per_plate = null where x.id = p_product;
		delete from product_materials m where m.product_id = p_product and m.is_required;
	end if;

	-- Compute the costs of new plates before the product contains them, so that its own cost changes once.
	if cardinality(added) > 0 then
		perform recompute_costs(added, false);
	end if;
	insert into product_components (id, product_id, component_product_id, quantity)
	select uuid_v7(), p_product, x.new_id, coalesce(x.quantity, 1)
	from json_to_recordset(p_plates) x (n int, id uuid, new_id uuid, quantity int)
	where x.id is null order by x.n;
	perform recompute_costs(p_product || listed, false);
	return p_product;
end $$;

-- Recomputes the costs of a restored product, after those of its plates, and returns its id. A restored plate is a
-- component of its product again.
create or replace function restore_plates(restored uuid) returns uuid language plpgsql as $$
declare
	p products;
begin
	select * into p from products x where x.id = restored;
	perform recompute_costs(array(
		select c.component_product_id from product_components c join products x on x.id = c.component_product_id
		where c.product_id = restored and x.plate_of = restored), false);
	perform recompute_costs(array[restored], false);
	if p.plate_of is null then
		return restored;
	end if;
	if exists (select from products x where x.plate_of = p.plate_of and x.plate = p.plate and x.id <> p.id
			and x.hidden_at is null) then
		update products x set plate = next_plate(array(
			select y.plate from products y where y.plate_of = p.plate_of and y.id <> p.id and y.hidden_at is null))
		where x.id = p.id;
	end if;
	insert into product_components (id, product_id, component_product_id, quantity)
	values (uuid_v7(), p.plate_of, p.id, coalesce(p.plate_quantity, 1))
	on conflict do nothing;
	perform recompute_costs(array[p.plate_of], false);
	return restored;
end $$;
