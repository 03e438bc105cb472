-- Recomputes the stored costs of the materials of products from the current spool prices.
create or replace function recompute_materials(products uuid[]) returns void language plpgsql as $$
declare
	usual numeric := usual_diameter();
	material_keys text[];
	color_keys text[];
	filament_ids uuid[];
begin
	select array_agg(w.material_key), array_agg(w.color_key), array_agg(w.filament_id)
	into material_keys, color_keys, filament_ids
	from (
		select distinct material_key(m.material_type, m.material_name, coalesce(m.diameter_mm, usual)) as material_key,
			m.color_key, m.filament_id
		from product_materials m where m.product_id = any (products)
	) w;

	-- The cost is weight * amount / grams, rounded to six decimals, half away from zero. A numeric division has
	-- a limited number of decimals, so that round(weight * amount / grams, 6) would round twice; div() on whole
	-- numbers is exact.
	-- Each part is computed once, whatever PostgreSQL knows about the sizes of the tables.
	with price as materialized (
		select * from filament_prices(material_keys, color_keys, filament_ids)
	), n as materialized (
		select o.id, div(o.weight_grams * p.amount * 2000000 + p.grams, p.grams * 2) * 0.000001 as cost, p.basis
		from product_materials o
		left join price p
			on p.material_key = material_key(o.material_type, o.material_name, coalesce(o.diameter_mm, usual))
				and p.color_key = o.color_key and p.filament_id is not distinct from o.filament_id
		where o.product_id = any (products)
	)
	update product_materials m set cost = n.cost, cost_basis = n.basis
	from n where m.id = n.id and (m.cost is distinct from n.cost or m.cost_basis is distinct from n.basis);
end $$;

-- Recomputes the stored costs of products, and whether the costs are complete, and returns the first id. With
-- whole_tree, it also recomputes all products that these products contain, directly or through others. The material
-- costs of all these products come from the current spool prices. The function then updates the component costs of
-- all products that contain any of these products, but keeps the material costs of the containing products.
--
-- Each product is computed once, after all of its components: products are updated level by level, where levels
-- is 0 without components and otherwise one more than the highest level of a component. The caller must hold
-- the tenant's catalog lock (lockCatalog in cost.go), so that no other transaction changes the tree meanwhile.
-- Removed products keep their costs, and only their levels change: open orders may still want them. The roots are not
-- removed, and neither is what they contain.
--
-- Each product whose total cost changed causes the event product.cost_changed, unless the transaction created it.
--
-- Components may nest 50 levels deep: more levels raise a violation of the check products_levels_range, which is not
-- a constraint of the table. A product that already has more levels keeps them.
create or replace function recompute_costs(roots uuid[], whole_tree boolean) returns uuid language plpgsql as $$
declare
	tree uuid[] := roots;
	next_level uuid[];
	too_deep boolean;
	ids uuid[];
	old_costs numeric[];
	changed_ids uuid[] := '{}';
	changed_from numeric[] := '{}';
	hooks uuid[];
begin
	if whole_tree then
		tree := array(
			with recursive below (id) as (
				select unnest(roots) union
				select c.component_product_id from below b join product_components c on c.product_id = b.id
			)
			select id from below);
	end if;

	perform recompute_materials(tree);
	for next_level in
		with recursive above (id) as (
			select unnest(tree) union
			select c.product_id from above a join product_components c on c.component_product_id = a.id
		)
		select array_agg(p.id) from above a join products p on p.id = a.id
		group by p.levels order by p.levels
	loop
		with changed as (
			update products p
			set levels = n.levels, material_cost = n.material_cost, component_cost = n.component_cost,
				costs_complete = n.costs_complete, updated_at = case when n.removed then p.updated_at else now() end
			from (
				select q.id, q.hidden_at is not null as removed, q.levels as old_levels, q.total_cost as old_cost, c.levels,
					case when q.hidden_at is null then c.component_cost else q.component_cost end as component_cost,
					case when q.hidden_at is null then m.complete and c.complete else q.costs_complete end as costs_complete,
					case when q.id = any (tree) then m.cost else q.material_cost end as material_cost
				from products q cross join lateral (
					select coalesce(max(s.levels) + 1, 0) as levels,
						coalesce(sum(c.quantity * s.total_cost), 0) as component_cost,
						coalesce(bool_and(s.costs_complete), true) as complete
					from product_components c join products s on s.id = c.component_product_id
					where c.product_id = q.id
				) c cross join lateral (
					select coalesce(sum(m.cost), 0) as cost,
						coalesce(bool_and(m.cost is not null or not m.is_required), true) as complete
					from product_materials m where m.product_id = q.id
				) m
				where q.id = any (next_level)
			) n
			where p.id = any (next_level) and p.id = n.id and (not n.removed and p.id = any (roots)
				or (p.levels, p.material_cost, p.component_cost, p.costs_complete)
					is distinct from (n.levels, n.material_cost, n.component_cost, n.costs_complete))
			returning p.id, n.old_cost, p.total_cost <> n.old_cost and p.created_at < now() as differs,
				not n.removed and n.levels > greatest(50, n.old_levels) as too_deep
		)
		select bool_or(c.too_deep), array_agg(c.id) filter (where c.differs),
			array_agg(c.old_cost) filter (where c.differs)
		into too_deep, ids, old_costs from changed c;
		if too_deep then
			raise exception 'components nest more than 50 levels deep'
				using errcode = 'check_violation', constraint = 'products_levels_range';
		end if;
		changed_ids := changed_ids || ids;
		changed_from := changed_from || old_costs;
	end loop;
	if cardinality(changed_ids) > 0 then
		hooks := event_webhooks('product.cost_changed');
	end if;
	if hooks is not null then
		perform emit_event(hooks, 'product.cost_changed', json_build_object('id', p.id, 'sku', p.sku, 'name', p.name,
			'total_cost', trim_scale(p.total_cost), 'previous_total_cost', trim_scale(c.previous),
			'costs_complete', p.costs_complete))
		from unnest(changed_ids, changed_from) c (id, previous)
		join products p on p.id = c.id;
	end if;
	return roots[1];
end $$;
