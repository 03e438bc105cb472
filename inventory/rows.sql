-- The checks and computed columns of spools and of their ledger, and the name of a spool.
--
-- Reports whether the columns of a spool but its remaining weight are valid. The result may be null. A null condition
-- counts as met: false and null is false.
create or replace function valid_spool(s spools) returns boolean language plpgsql immutable parallel safe as $$
begin
	return coalesce(s.number, 0) > 0
		and s.material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')
		and s.diameter_mm in (1.75, 2.85)
		and s.net_weight_grams > 0
		and least(s.spool_weight_grams, s.purchase_price) >= 0
		and greatest(s.net_weight_grams, s.spool_weight_grams, s.purchase_price) <= 1000000
		and s.density_g_cm3 > 0 and s.density_g_cm3 <= 100
		and s.color_hex ~ '^#[0-9A-Fa-f]{6}$'
		and greatest(length(s.material_name), length(s.brand), length(s.color), length(s.finish), length(s.supplier),
			length(s.location),
			length(s.lot_number)) <= 200
		and length(s.notes) <= 10000
		and (s.extra = '{}' or length(s.extra::text) <= 100000);
end $$;

-- Returns a key for comparing filament apart from its color. Two filaments are equal if they have the same color,
-- material type, material name and diameter. This is the only place with the rule:
--
--   * Names are compared without regard to case, blanks, hyphens and underscores: PETG-CF is petg cf.
--   * A name that only repeats the type, such as PLA or, for nylon, PA, is the same as no name.
create or replace function material_key(material_type text, material_name text, diameter_mm numeric) returns text
language plpgsql immutable parallel safe as $$
declare
	name text := translate(lower(material_name collate "und-x-icu"), U&' \0009\00A0-_', '');
begin
	if name = lower(material_type) or material_type = 'Nylon' and name in ('pa', 'polyamide')
		or material_type = 'PC' and name = 'polycarbonate' then
		name := '';
	end if;
	return material_type || '/' || coalesce(name, '') || '/' || trim_scale(diameter_mm);
end $$;

-- Returns the name of a material for people. If the name is only another spelling of the type, it returns the type.
create or replace function material_label(material_type text, material_name text) returns text
language sql immutable parallel safe as $$
	select case when material_name = '' or material_key(material_type, material_name, 0)
			= material_key(material_type, null, 0) then material_type
		else coalesce(btrim(material_name), material_type) end
$$;

-- Reports whether an entry of the ledger is valid. The service writes only such entries; the import of an archive calls
-- the function. A check of the table would take time at every deduction.
create or replace function valid_usage(u spool_usage) returns boolean language plpgsql immutable parallel safe as $$
begin
	return u.kind in ('created', 'edited', 'deducted', 'run', 'measured', 'printed', 'wasted', 'discarded', 'refilled')
		and u.shortfall_grams >= case when u.kind in ('run', 'wasted') or u.reverses_id is not null then -999999999
			else 0 end
		and u.shortfall_grams <= 999999999
		and num_nonnulls(u.reverses_id, u.moves_id) <= 1
		and length(u.reason) <= 10000;
end $$;

do $$
begin -- only once, because it locks the tables
	if not exists (
		select from pg_attribute where attrelid = 'usage_changes'::regclass and attname = 'id' and atthasdef) then
		alter table spool_usage alter id set default uuid_v7();
		alter table usage_changes alter id set default uuid_v7();
	end if;
end $$;

-- Computes the columns of a spool that depend on other columns, and ignores what the statement sets them to. Checks all
-- columns but the remaining weight. There are no generated columns and no check, because PostgreSQL would parse their
-- expressions for each deduction, which changes none of these columns.
create or replace function spool_computed() returns trigger language plpgsql as $$
begin
	new.cost_per_gram := round(new.purchase_price / new.net_weight_grams, 6);
	new.brand_key := lower(new.brand collate "und-x-icu");
	new.color_key := lower(new.color collate "und-x-icu");
	new.material_key := material_key(new.material_type, new.material_name, new.diameter_mm);
	new.supplier_key := lower(new.supplier collate "und-x-icu");
	new.location_key := lower(new.location collate "und-x-icu");
	new.lot_key := lower(new.lot_number collate "und-x-icu");
	-- See server.Searchable. A word of a search contains no line break, so that it does not match across two fields.
	new.search_key := lower(concat_ws(E'\n', new.material_type, new.material_name, new.color, new.brand, new.finish,
		new.location, new.lot_number, new.supplier, new.notes) collate "und-x-icu");
	if octet_length(new.search_key) > length(new.search_key) then
		new.search_key := regexp_replace(normalize(new.search_key, NFKD), U&'[\0300-\036F]', '', 'g');
	end if;
	-- The id of the filament that clients of the Spoolman API see: at least 1000000001, above all numbers of filaments.
	new.computed_filament := case when new.filament_id is null then 1000000001 + (('x' || left(md5(concat_ws('|',
		new.material_type, coalesce(new.brand_key, ''), new.color_key, coalesce(upper(new.color_hex), ''),
		new.diameter_mm::text, nullif(new.material_name, ''))), 8))::bit(32)::int & 1073741823) end;
	if not valid_spool(new) then
		raise exception 'a spool is not valid' using errcode = 'check_violation', constraint = 'spools_valid', table = 'spools';
	end if;
	if new.cost_per_gram > 999999999 then
		raise exception 'the price of a gram is too high' using errcode = 'numeric_value_out_of_range';
	end if;
	return new;
end $$;
create or replace trigger spool_computed before insert or update of number, filament_id, material_type, material_name,
		brand, color, color_hex, finish, diameter_mm, density_g_cm3, net_weight_grams, spool_weight_grams, purchase_price,
		supplier, location, lot_number, notes, extra,
		cost_per_gram, brand_key, color_key, material_key, supplier_key, location_key, lot_key, search_key,
		computed_filament on spools
	for each row execute function spool_computed();
alter table spools enable always trigger spool_computed; -- also while a copy of a database is filled

-- Moves a spool from one location to another; null is no location. If someone has moved the spool elsewhere, it
-- stays there.
create or replace function move_spool(spool uuid, old_location text, new_location text) returns void
language sql as $$
	update spools s set location = new_location, updated_at = now(), edited_at = now()
	where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid and s.id = spool
		and s.location is not distinct from old_location and s.location is distinct from new_location
$$;

-- Returns the name of a spool for messages and responses, such as "PLA Black (Polymaker)".
create or replace function spool_name(material_type text, material_name text, color text, brand text) returns text
language sql immutable parallel safe as $$
	select material_label(material_type, material_name) || ' ' || color || coalesce(' (' || nullif(brand, '') || ')', '')
$$;

-- Sets in_stock, checks the remaining weight, and sends the event spool.empty when an update makes the remaining weight
-- 0. No trigger after it may skip the row, because the event is sent already. One trigger takes less time than a
-- generated column, a check, and a trigger with a condition, whose expressions PostgreSQL would parse for each
-- deduction.
create or replace function spool_weighed() returns trigger language plpgsql as $$
begin
	new.in_stock := new.remaining_weight_grams > 0;
	if not new.remaining_weight_grams between 0 and 1000000 then
		raise exception 'a spool has less than 0 g or more than 1,000,000 g' using errcode = 'check_violation',
			table = 'spools';
	end if;
	if old.in_stock and not new.in_stock and current_setting('session_replication_role') <> 'replica' then
		perform emit_event(event_webhooks('spool.empty'), 'spool.empty', json_build_object('id', new.id, 'number', new.number,
			'material_type', new.material_type, 'material_name', new.material_name, 'color', new.color, 'brand', new.brand,
			'location', new.location));
	end if;
	return new;
end $$;
create or replace trigger spool_weighed before insert or update of remaining_weight_grams, in_stock on spools
	for each row execute function spool_weighed();
alter table spools enable always trigger spool_weighed; -- also while a copy of a database is filled
