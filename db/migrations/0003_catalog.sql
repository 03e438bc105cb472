-- Products, their materials and components, and what they cost.

-- The costs are stored; recompute_costs (below) alone changes them. Levels is how many levels of components are below a
-- product: 0 without any, else one more than the most of its components. What has fewer levels is computed first.
create table products (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	name text collate "C" not null check (length(name) <= 200),
	description text collate "C" check (length(description) <= 10000),
	sku text collate "C" check (length(sku) <= 200),
	category text collate "C" check (length(category) <= 200),
	estimated_print_time_minutes int check (estimated_print_time_minutes >= 0 and estimated_print_time_minutes <= 1000000),
	notes text collate "C" check (length(notes) <= 10000),
	material_cost numeric(15,6) not null default 0 check (material_cost >= 0),
	component_cost numeric(15,6) not null default 0 check (component_cost >= 0),
	total_cost numeric(15,6) not null generated always as (material_cost + component_cost) stored
		constraint products_cost_range check (total_cost <= 999999999),
	levels int not null default 0 check (levels >= 0),
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now(),
	hidden_at timestamptz,
	category_key text collate "C" generated always as (lower(category collate "und-x-icu") collate "C") stored,
	-- U+FFFD is taken in nowhere, so no search matches across the two.
	search_key text collate "C" not null generated always as
		(lower((name || U&'\FFFD' || coalesce(description, '')) collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id)
) with (fillfactor = 85);

-- What recomputing changes (costs, levels, updated_at) is in no index.
create index products_newest on products (tenant_id, created_at, id) where hidden_at is null;
create index products_category on products (tenant_id, category_key, created_at, id) where hidden_at is null;
create unique index products_sku on products (tenant_id, sku) where hidden_at is null and sku <> '';

create trigger count_added after insert on products referencing new table as added
	for each statement execute function count_added();
create trigger count_hidden after update of hidden_at on products
	for each row when (old.hidden_at is null and new.hidden_at is not null) execute function count_removed();

create table product_materials (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	product_id uuid not null,
	material_type text collate "C" not null
		check (material_type in ('PLA', 'PETG', 'ABS', 'TPU', 'ASA', 'Nylon', 'PC', 'HIPS', 'PVA', 'Custom')),
	color text collate "C" not null check (length(color) <= 200),
	weight_grams numeric(15,6) not null check (weight_grams > 0 and weight_grams <= 1000000),
	is_required boolean not null default true,
	notes text collate "C" check (length(notes) <= 10000),
	cost numeric(15,6) constraint product_materials_cost_range check (cost >= 0 and cost <= 999999999),
	created_at timestamptz not null default clock_timestamp(),
	color_key text collate "C" not null generated always as (lower(color collate "und-x-icu") collate "C") stored,
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
) with (fillfactor = 85);
create index product_materials_oldest on product_materials (tenant_id, product_id, created_at, id);

create table product_components (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	id uuid not null,
	product_id uuid not null,
	component_product_id uuid not null check (component_product_id <> product_id),
	quantity int not null default 1 check (quantity >= 1 and quantity <= 1000000),
	notes text collate "C" check (length(notes) <= 10000),
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	foreign key (tenant_id, component_product_id) references products (tenant_id, id)
);
create unique index product_components_once on product_components (tenant_id, product_id, component_product_id);
create index product_components_used on product_components (tenant_id, component_product_id, product_id);

alter table products enable row level security, force row level security;
create policy tenant on products
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table product_materials enable row level security, force row level security;
create policy tenant on product_materials
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
alter table product_components enable row level security, force row level security;
create policy tenant on product_components
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update on products to spoolwright_app;
grant select, insert, update, delete on product_materials to spoolwright_app;
grant select, insert, update, delete on product_components to spoolwright_app;

-- For the price of filament: deductions change no column of this index.
create index spools_price on spools (tenant_id, material_type, color_key) where hidden_at is null and cost_per_gram is not null;

-- Inventory's answer to what filament costs: for each pair of a material and a colour (in its compared form, color_key)
-- the price per gram, as the fraction amount / grams, so that it is exact. In this order, over priced spools that are
-- not hidden: the remaining-weighted mean of that material and colour, the plain mean of those, the same two of that
-- material in any colour; null where even these are missing.
create function filament_prices(material_types text[], color_keys text[])
returns table (material_type text, color_key text, amount numeric, grams numeric)
language sql stable as $$
	with wanted as (
		select distinct w.material_type collate "C" as material_type, w.color_key collate "C" as color_key
		from unnest(material_types, color_keys) w (material_type, color_key)
	), exact as materialized (
		select w.material_type, w.color_key, p.amount, p.grams
		from wanted w cross join lateral (
			select case when sum(s.remaining_weight_grams) > 0 then sum(s.cost_per_gram * s.remaining_weight_grams) else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) > 0 then sum(s.remaining_weight_grams) else nullif(count(*), 0) end as grams
			from spools s
			where s.material_type = w.material_type and s.color_key = w.color_key and s.hidden_at is null and s.cost_per_gram is not null
		) p
	), any_color as materialized (
		select w.material_type, p.amount, p.grams
		from (select distinct e.material_type from exact e where e.amount is null) w cross join lateral (
			select case when sum(s.remaining_weight_grams) > 0 then sum(s.cost_per_gram * s.remaining_weight_grams) else sum(s.cost_per_gram) end as amount,
				case when sum(s.remaining_weight_grams) > 0 then sum(s.remaining_weight_grams) else nullif(count(*), 0) end as grams
			from spools s
			where s.material_type = w.material_type and s.hidden_at is null and s.cost_per_gram is not null
		) p
	)
	select e.material_type, e.color_key, coalesce(e.amount, a.amount), case when e.amount is null then a.grams else e.grams end
	from exact e left join any_color a on e.amount is null and a.material_type = e.material_type
$$;

-- Recomputes the product, or with whole_tree everything below it too: the cost of the materials from today's prices,
-- and the sums; then, whatever is above any of these, its sums from stored material costs. Each product is computed once, after all
-- of its components. Returns the product. The caller holds the tenant's catalog lock, so that levels is in order.
create function recompute_costs(product uuid, whole_tree boolean) returns uuid language plpgsql as $$
declare
	tree uuid[] := array[product];
	material_types text[];
	color_keys text[];
	next_level uuid[];
begin
	if whole_tree then
		tree := array(
			with recursive below (id) as (
				select product union
				select c.component_product_id from below b join product_components c on c.product_id = b.id
			)
			select id from below);
	end if;

	select array_agg(w.material_type), array_agg(w.color_key) into material_types, color_keys
	from (select distinct m.material_type, m.color_key from product_materials m where m.product_id = any (tree)) w;

	-- round(weight * amount / grams, 6) would round twice, for a numeric quotient has an end; this rounds half away once.
	update product_materials m set cost = n.cost
	from (
		select o.id, div(o.weight_grams * p.amount * 2000000 + p.grams, p.grams * 2) * 0.000001 as cost
		from product_materials o
		left join filament_prices(material_types, color_keys) p on p.material_type = o.material_type and p.color_key = o.color_key
		where o.product_id = any (tree)
	) n
	where m.id = n.id and m.cost is distinct from n.cost;

	for next_level in
		with recursive above (id) as (
			select unnest(tree) union
			select c.product_id from above a join product_components c on c.component_product_id = a.id
		)
		select array_agg(p.id) from above a join products p on p.id = a.id
		where p.hidden_at is null
		group by p.levels order by p.levels
	loop
		update products p set levels = n.levels, material_cost = n.material_cost, component_cost = n.component_cost, updated_at = now()
		from (
			select q.id, c.levels, c.component_cost, case when q.id = any (tree) then
				(select coalesce(sum(m.cost), 0) from product_materials m where m.product_id = q.id) else q.material_cost end as material_cost
			from products q cross join lateral (
				select coalesce(max(s.levels) + 1, 0) as levels, coalesce(sum(c.quantity * s.total_cost), 0) as component_cost
				from product_components c join products s on s.id = c.component_product_id
				where c.product_id = q.id
			) c
			where q.id = any (next_level)
		) n
		where p.id = n.id and (p.id = product or
			(p.levels, p.material_cost, p.component_cost) is distinct from (n.levels, n.material_cost, n.component_cost));
	end loop;
	return product;
end $$;
