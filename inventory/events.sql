-- Sends the event spool.empty when the last filament of a spool is used, in whatever way its remaining weight changes.
create or replace function spool_emptied() returns trigger language plpgsql as $$
begin
	perform emit_event(event_webhooks('spool.empty'), 'spool.empty', json_build_object('id', new.id, 'number', new.number,
		'material_type', new.material_type, 'color', new.color, 'brand', new.brand, 'location', new.location));
	return null;
end $$;
create or replace trigger spool_emptied after update of remaining_weight_grams on spools
	for each row when (new.remaining_weight_grams = 0 and old.remaining_weight_grams > 0)
	execute function spool_emptied();
