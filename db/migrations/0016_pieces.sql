-- Pieces of products in stock, their ledger, and what orders get of them.

alter table products
	add column minimum_pieces int check (minimum_pieces between 1 and 1000000), -- that should be available
	add column location text collate "C" check (length(location) <= 200); -- of the pieces

-- How many pieces of a product lie in stock, and what they cost. Only the function move_pieces changes the numbers; they
-- are the sums of piece_entries. A product without a row has no pieces.
create table product_pieces (
	tenant_id uuid,
	product_id uuid not null,
	-- Negative if runs have used more components than were recorded; see settle_run_pieces.
	on_hand int not null default 0 check (on_hand between -1000000000 and 1000000000),
	value numeric(15,6) not null default 0 check (value >= 0 and value <= 999999999), -- of the pieces with a known cost
	unvalued int not null default 0 check (unvalued >= 0), -- the pieces of on_hand without a known cost
	low_since timestamptz, -- when the available pieces became fewer than minimum_pieces
	primary key (tenant_id, product_id),
	foreign key (tenant_id, product_id) references products (tenant_id, id)
) with (fillfactor = 85);
call tenant_table('product_pieces', 'select, insert, update');

-- The ledger of pieces. An entry is never changed; an entry with reverses takes another one back.
create table piece_entries (
	tenant_id uuid,
	id uuid not null,
	product_id uuid not null,
	kind text collate "C" not null check (kind in ('produced', 'used', 'assembled', 'disassembled', 'delivered',
		'returned', 'counted', 'scrapped', 'corrected')),
	pieces int not null check (pieces between -1000000000 and 1000000000), -- that came into stock; negative: went out
	-- The pieces that went out although they were not in stock; negative in an entry that takes such pieces back.
	shortfall int not null default 0 check (shortfall between -1000000000 and 1000000000),
	on_hand int not null check (on_hand between -1000000000 and 1000000000), -- after the entry
	cost numeric(15,6) check (cost between -999999999 and 999999999), -- of the pieces; null if unknown
	-- The cause. A run that was deleted stays named.
	run_id uuid,
	run_item_id uuid,
	order_id uuid,
	order_item_id uuid,
	assembly_id uuid, -- the entries of one assembly have the same
	reverses uuid, -- no foreign key, so that a dump of the data can be restored in the order of the tables
	reason text collate "C" check (length(reason) <= 2000),
	user_id uuid default nullif(current_setting('app.user_id', true), '')::uuid,
	api_key_id uuid default nullif(current_setting('app.api_key_id', true), '')::uuid,
	created_at timestamptz not null default clock_timestamp(),
	primary key (tenant_id, id),
	foreign key (tenant_id, product_id) references products (tenant_id, id),
	foreign key (tenant_id, order_id) references orders (tenant_id, id),
	foreign key (tenant_id, order_item_id) references order_items (tenant_id, id)
);
call tenant_table('piece_entries', 'select, insert');

create index piece_entries_product on piece_entries (tenant_id, product_id, created_at, id);
create index piece_entries_newest on piece_entries (tenant_id, created_at, id);
create index piece_entries_kind on piece_entries (tenant_id, kind, created_at, id);
create index piece_entries_run on piece_entries (tenant_id, run_id, run_item_id) where run_id is not null;
create index piece_entries_order on piece_entries (tenant_id, order_id, order_item_id) where order_id is not null;
create index piece_entries_assembly on piece_entries (tenant_id, assembly_id) where assembly_id is not null;
create unique index piece_entries_reversed on piece_entries (tenant_id, reverses) where reverses is not null;

-- When all pieces of an open order were in stock, as far as they are not delivered; null while pieces are missing.
alter table orders add column ready_at timestamptz;

-- An item of a run may also print a part of an order's item: a component, at any level. order_item_problem has the rule.
alter table run_items drop constraint run_items_order_item;
alter table run_items add constraint run_items_order_item foreign key (tenant_id, order_item_id)
	references order_items (tenant_id, id);
alter table order_items drop constraint order_items_tenant_id_id_product_id_key;
-- Whether a run prints only the product's own materials, and its components are taken from stock. Otherwise the run
-- prints the components, too.
alter table run_items add column parts_from_stock boolean not null default false;

-- Starts the ledger of a tenant that has runs, but no entries yet: what completed runs have printed was produced, and
-- only the pieces for open orders are still there. settle_run_pieces then changes only what changes later. The tenant
-- must be the tenant of the transaction.
create function start_piece_ledger() returns void language plpgsql as $$
begin
	insert into piece_entries (id, product_id, kind, pieces, on_hand, run_id, run_item_id, created_at)
	select gen_random_uuid(), i.product_id, 'produced', i.good, sum(i.good) over (
			partition by i.product_id order by i.ended, i.id rows between unbounded preceding and current row),
		i.run_id, i.id, i.ended
	from (
		select i.id, i.product_id, i.run_id,
			coalesce(i.successful_quantity, i.quantity - coalesce(i.failed_quantity, 0)) as good,
			coalesce(r.ended_at, r.completed_at, r.updated_at) as ended
		from run_items i join production_runs r on r.id = i.run_id
		where r.status = 'completed'
	) i
	where i.good > 0;

	insert into piece_entries (id, product_id, kind, pieces, on_hand, reason)
	select gen_random_uuid(), e.product_id, 'corrected', -sum(e.pieces) filter (where not coalesce(o.is_open, false)),
		coalesce(sum(e.pieces) filter (where o.is_open), 0),
		'Pieces that were printed before the farm kept stock of pieces, except those for open orders'
	from piece_entries e
	join run_items i on i.id = e.run_item_id
	left join order_items x on x.id = i.order_item_id and x.withdrawn_at is null
	left join orders o on o.id = x.order_id
	group by e.product_id
	having count(*) filter (where not coalesce(o.is_open, false)) > 0;

	insert into product_pieces (product_id, on_hand, unvalued)
	select e.product_id, sum(e.pieces), sum(e.pieces) from piece_entries e group by e.product_id;
end $$;

do $$
declare
	tenant uuid;
begin
	-- The policies of these tables otherwise hide the tenants from their owner.
	alter table tenants no force row level security;
	for tenant in select t.tenant_id from tenants t loop
		perform set_config('app.tenant_id', tenant::text, true);
		perform start_piece_ledger();
	end loop;
	perform set_config('app.tenant_id', '', true);
	alter table tenants force row level security;
end $$;
