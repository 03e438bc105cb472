-- Earlier releases computed values that a client could not send back. Row-level security binds the owner of the tables
-- too, so each tenant has its own updates.
do $$
declare
	tenant uuid;
begin
	for tenant in select login_tenants() loop
		perform set_config('app.tenant_id', tenant::text, true);
		update production_runs r set actual_print_time_hours = null
		where r.tenant_id = tenant and r.actual_print_time_hours > 100000;
		update production_runs r set actual_total_filament_grams = null
		where r.tenant_id = tenant and r.actual_total_filament_grams > 1000000;
	end loop;
	perform set_config('app.tenant_id', '', true);
end $$;
