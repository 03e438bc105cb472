-- Whether all required materials of a product, and of its components, have a price. It is stored like the costs:
-- recompute_costs alone changes it.
alter table products add column costs_complete boolean not null default true;

-- Row-level security binds the owner of the tables too, so each tenant has its own update.
do $$
declare
	tenant uuid;
begin
	for tenant in select login_tenants() loop
		perform set_config('app.tenant_id', tenant::text, true);
		with recursive incomplete (id) as (
			select m.product_id from product_materials m where m.tenant_id = tenant and m.is_required and m.cost is null
			union
			select c.product_id from incomplete i
			join product_components c on c.tenant_id = tenant and c.component_product_id = i.id
		)
		update products p set costs_complete = false from incomplete i where p.tenant_id = tenant and p.id = i.id;
	end loop;
	perform set_config('app.tenant_id', '', true);
end $$;
