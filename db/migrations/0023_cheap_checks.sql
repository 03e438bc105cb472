-- PostgreSQL parses the checks of a table again for each statement that changes it. For the spools and their ledger,
-- that took a third of the time of a deduction. A call of a function is short, and PostgreSQL keeps the parsed function.
--
-- As in a list of checks, a condition that is null is met: false and null is false, and null passes a check. Later
-- migrations must not replace such a function, because existing rows would not be checked. They create a new one, and a
-- new constraint.
create function valid_spool(s spools) returns boolean language plpgsql immutable parallel safe as $$
begin
	return s.number > 0
		and s.material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')
		and s.diameter_mm in (1.75, 2.85)
		and s.net_weight_grams > 0
		and least(s.remaining_weight_grams, s.spool_weight_grams, s.purchase_price) >= 0
		and greatest(s.net_weight_grams, s.remaining_weight_grams, s.spool_weight_grams, s.purchase_price) <= 1000000
		and s.density_g_cm3 > 0 and s.density_g_cm3 <= 100
		and s.color_hex ~ '^#[0-9A-Fa-f]{6}$'
		and greatest(length(s.brand), length(s.color), length(s.finish), length(s.supplier), length(s.location),
			length(s.lot_number)) <= 200
		and length(s.notes) <= 10000
		and length(s.external_key) <= 500;
end $$;

create function valid_usage(u spool_usage) returns boolean language plpgsql immutable parallel safe as $$
begin
	return u.kind in ('created', 'edited', 'deducted', 'run', 'measured', 'printed', 'wasted')
		and u.shortfall_grams >= 0 and u.shortfall_grams <= 999999999
		and length(u.reason) <= 10000;
end $$;

-- The check of cost_per_gram stays: its name is that of an error which clients can cause.
alter table spools
	add constraint spools_valid check (valid_spool(spools)) not valid,
	drop constraint spools_number_check,
	drop constraint spools_material_type_check,
	drop constraint spools_diameter_mm_check,
	drop constraint spools_net_weight_grams_check,
	drop constraint spools_remaining_weight_grams_check,
	drop constraint spools_spool_weight_grams_check,
	drop constraint spools_purchase_price_check,
	drop constraint spools_density_g_cm3_check,
	drop constraint spools_color_hex_check,
	drop constraint spools_brand_check,
	drop constraint spools_color_check,
	drop constraint spools_finish_check,
	drop constraint spools_supplier_check,
	drop constraint spools_location_check,
	drop constraint spools_lot_number_check,
	drop constraint spools_notes_check,
	drop constraint spools_external_key_check;

alter table spool_usage
	add constraint spool_usage_valid check (valid_usage(spool_usage)) not valid,
	drop constraint spool_usage_kind_check,
	drop constraint spool_usage_shortfall_grams_check,
	drop constraint spool_usage_reason_check;
