-- Removed products did not follow changes of the levels of their components. Open orders of them took the components
-- from stock in the wrong order. Later changes are those of recompute_costs.
do $$
declare
	tenant uuid;
	changed bigint;
begin
	-- The policies of this table otherwise hide the tenants from their owner.
	alter table tenants no force row level security;
	for tenant in select t.tenant_id from tenants t loop
		perform set_config('app.tenant_id', tenant::text, true);
		loop
			update products p set levels = c.levels
			from (
				select c.product_id, max(s.levels) + 1 as levels
				from product_components c join products s on s.id = c.component_product_id
				group by c.product_id
			) c
			where p.id = c.product_id and p.levels < c.levels and p.hidden_at is not null;
			get diagnostics changed = row_count;
			exit when changed = 0;
		end loop;
	end loop;
	perform set_config('app.tenant_id', '', true);
	alter table tenants force row level security;
end $$;
