-- The numbers of products, for labels.
alter table products alter number set default next_number('products');

-- Numbers products that are older than the numbers, in the order of their creation.
do $$
declare
	product record;
begin
	alter table products no force row level security;
	for product in
		select p.tenant_id, p.id from products p where p.number is null order by p.tenant_id, p.created_at, p.id
	loop
		perform set_config('app.tenant_id', product.tenant_id::text, true);
		update products p set number = next_number('products')
		where p.tenant_id = product.tenant_id and p.id = product.id;
	end loop;
	perform set_config('app.tenant_id', '', true);
	alter table products force row level security;
end $$;
