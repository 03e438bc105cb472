-- Sets the estimates of a run from the bills of materials of its items, as they are now, except those that a client
-- gave. An estimate is null without items, and if it exceeds the largest value. A run that has ended keeps its
-- estimates.
create or replace function estimate_run(run uuid) returns void language plpgsql as $$
begin
	update production_runs r set
		estimated_total_filament_grams = case when r.grams_given then r.estimated_total_filament_grams
			when e.grams <= 1000000 then e.grams end,
		estimated_print_time_hours = case when r.hours_given then r.estimated_print_time_hours
			when e.minutes <= 6000000 then round(e.minutes / 60, 6) end
	from (
		select array_agg(i.product_id) as ids, array_agg(i.quantity::numeric) as pieces
		from run_items i where i.run_id = run
	) i
	cross join lateral estimate_products(i.ids, i.pieces) e
	where r.id = run and r.hidden_at is null and r.deducted_at is null and not (r.grams_given and r.hours_given);
end $$;
