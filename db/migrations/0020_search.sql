-- What search looks for in spools and runs. No text contains U+FFFD, so that no search matches across two fields.
alter table spools add column search_key text collate "C" not null generated always as (lower((
	material_type || U&'\FFFD' || coalesce(brand, '') || U&'\FFFD' || color || U&'\FFFD' || coalesce(supplier, '') ||
	U&'\FFFD' || coalesce(notes, '')) collate "und-x-icu") collate "C") stored;

alter table production_runs add column search_key text collate "C" not null generated always as (lower((
	coalesce(printer_name, '') || U&'\FFFD' || coalesce(notes, '')) collate "und-x-icu") collate "C") stored;
