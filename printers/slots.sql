alter table printers alter number set default next_number('printers');

-- Loads a spool into a slot of a printer, or unloads the slot if the spool is null. The transaction must have the lock
-- printer_slots. What was in the slot before is unloaded, and so is the spool from where it was.
--
-- A loaded spool has the printer's name as its location. Unloading it brings it back to the location that it had
-- before, unless someone has moved it meanwhile. Both printers and the spools are locked in the order of their ids, the
-- printers first. Nothing changes if the spool is in the slot already.
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
		cross join lateral (select p.name from printers p where p.tenant_id = tenant and p.id = l.printer_id offset 0) p
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
