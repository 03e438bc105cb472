alter table printers alter number set default next_number('printers');

-- Loads a spool into a slot of a printer, or unloads the slot if the spool is null. The transaction must hold the
-- lock printer_slots. The function first unloads the spool that was in the slot, and the slot in which the new spool
-- was.
--
-- A loaded spool has the printer's name as its location. When it is unloaded, its previous location returns, unless
-- someone has moved it in the meantime. Both printers and the spools are locked in the order of their ids, printers
-- first. Nothing changes if the spool is in the slot already.
create or replace function load_slot(printer uuid, slot int, spool uuid) returns void language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	other record;
	back text;
	name text;
begin
	if spool is not distinct from (select l.spool_id from printer_slots l
		where l.tenant_id = tenant and l.printer_id = printer and l.slot = load_slot.slot) then
		return;
	end if;
	perform from (
		select printer as id
		union
		select l.printer_id from printer_slots l where l.tenant_id = tenant and l.spool_id = spool
		order by id
	) u
	cross join lateral (select from printers p where p.tenant_id = tenant and p.id = u.id for no key update) p;
	perform from (
		select spool as id
		union
		select l.spool_id from printer_slots l
		where l.tenant_id = tenant and l.printer_id = printer and l.slot = load_slot.slot
		order by id
	) u
	cross join lateral (select from spools s where s.tenant_id = tenant and s.id = u.id for no key update) s;

	select p.name into name from printers p where p.tenant_id = tenant and p.id = printer;
	select s.location into back from spools s where s.tenant_id = tenant and s.id = spool;
	for other in
		select l.*, p.name
		from (
			select * from printer_slots l
			where l.tenant_id = tenant and l.printer_id = printer and l.slot = load_slot.slot
			union all
			select * from printer_slots l where l.tenant_id = tenant and l.spool_id = load_slot.spool
		) l
		join printers p on p.tenant_id = tenant and p.id = l.printer_id
	loop
		delete from printer_slots l
		where l.tenant_id = tenant and l.printer_id = other.printer_id and l.slot = other.slot;
		if other.spool_id = spool then
			back := case when back = other.name then other.previous_location else back end;
		else
			perform move_spool(other.spool_id, other.name, other.previous_location);
		end if;
		update printers p set updated_at = now()
		where p.tenant_id = tenant and p.id = other.printer_id and p.id <> printer;
	end loop;
	if spool is not null then
		insert into printer_slots (printer_id, slot, spool_id, previous_location) values (printer, slot, spool, back);
		perform move_spool(s.id, s.location, name) from spools s where s.tenant_id = tenant and s.id = spool;
	end if;
	update printers p set updated_at = now() where p.tenant_id = tenant and p.id = printer;
end $$;

-- Notes that a printer says which tray is in a slot: its tag, which may be null, or that there is none. Loads the spool
-- with the tag. A tray without a spool, or with a tag of no spool, unloads a spool that has another tag. The transaction
-- must hold the lock printer_slots.
create or replace function see_tray(printer uuid, slot int, seen text, is_empty boolean) returns void
language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	spool uuid;
begin
	delete from spool_tags t
	where t.tenant_id = tenant and t.printer_id = printer and t.slot = see_tray.slot and t.tag is distinct from seen
		and t.spool_id is null;
	update spool_tags t set printer_id = null
	where t.tenant_id = tenant and t.printer_id = printer and t.slot = see_tray.slot and t.tag is distinct from seen;
	if seen is not null then
		insert into spool_tags (tag, printer_id, slot) values (seen, printer, see_tray.slot)
		on conflict (tenant_id, tag) do update set printer_id = excluded.printer_id, slot = excluded.slot;
	end if;
	if slot > (select p.slots from printers p where p.tenant_id = tenant and p.id = printer) then
		return;
	end if;
	select s.id into spool
	from spool_tags t
	join spools s on s.tenant_id = tenant and s.id = t.spool_id and s.hidden_at is null and not s.archived
	where t.tenant_id = tenant and t.tag = seen;
	if spool is not null or (is_empty or seen is not null) and exists (
		select from printer_slots l
		join spool_tags t on t.tenant_id = tenant and t.spool_id = l.spool_id
		where l.tenant_id = tenant and l.printer_id = printer and l.slot = see_tray.slot) then
		perform load_slot(printer, see_tray.slot, spool);
	end if;
end $$;

-- Loads the spool with the number if the caller is an API key of a printer with one slot: the printer reports use of
-- that spool. Returns the number. A transaction must call it before it locks printers or spools.
create or replace function load_reported(spool_number int) returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	key uuid := nullif(current_setting('app.api_key_id', true), '')::uuid;
	loads record;
begin
	for attempt in 1..2 loop
		select p.id as printer, s.id as spool into loads
		from api_keys k
		join printers p on p.tenant_id = tenant and p.id = k.printer_id and p.slots = 1 and p.hidden_at is null
		join spools s on s.tenant_id = tenant and s.number = spool_number and s.hidden_at is null
		where k.tenant_id = tenant and k.id = key and not exists (
			select from printer_slots l where l.tenant_id = tenant and l.printer_id = p.id and l.spool_id = s.id);
		exit when not found;
		if attempt = 1 then -- the second attempt runs under the lock
			perform pg_advisory_xact_lock(hashtextextended('printer_slots ' || tenant, 0));
		else
			perform load_slot(loads.printer, 1, loads.spool);
		end if;
	end loop;
	return spool_number;
end $$;
