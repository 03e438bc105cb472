-- A client may send the actual weight of a run's material. The weights before and after printing, where both are
-- recorded, take precedence. Programs of earlier releases only read actual_weight_grams.
alter table run_materials drop column actual_weight_grams,
	add column sent_actual_grams numeric(15,6) check (sent_actual_grams >= 0 and sent_actual_grams <= 1000000);
alter table run_materials add column actual_weight_grams numeric(15,6)
	generated always as (coalesce(spool_weight_before_grams - spool_weight_after_grams, sent_actual_grams)) stored;
