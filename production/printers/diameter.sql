-- Returns the diameter of filament for the farm of the transaction if no other value is known: 2.85 if all printers,
-- except retired printers, use 2.85, and otherwise 1.75. This is the smallest diameter, which is the first entry of
-- the index printers_diameter, so the time does not depend on the number of printers.
create or replace function usual_diameter() returns numeric language plpgsql stable as $$
begin
	return coalesce((
		select p.diameter_mm from printers p
		where p.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and p.hidden_at is null and p.status <> 'retired'
		order by p.tenant_id, p.diameter_mm limit 1), 1.75);
end $$;
