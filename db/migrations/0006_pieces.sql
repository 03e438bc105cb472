-- Pieces of products in stock, and their ledger.

-- The number of pieces of a product in stock, and their cost. Only the function move_pieces changes the numbers; they
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

-- The ledger of pieces. Entries never change; an entry with reverses takes back another entry.
create table piece_entries (
	tenant_id uuid,
	id uuid not null,
	product_id uuid not null,
	kind text collate "C" not null check (kind in ('produced', 'used', 'assembled', 'disassembled', 'delivered',
		'returned', 'counted', 'scrapped', 'corrected')),
	pieces int not null check (pieces between -1000000000 and 1000000000), -- added to stock; negative: removed
	-- The pieces that were removed although they were not in stock; negative in an entry that takes this back.
	shortfall int not null default 0 check (shortfall between -1000000000 and 1000000000),
	on_hand int not null check (on_hand between -1000000000 and 1000000000), -- after the entry
	cost numeric(15,6) check (cost between -999999999 and 999999999), -- of the pieces; null if unknown
	-- The change of the value of the stock, and of the number of pieces without a known cost, by the entry; and both
	-- after the entry. They are the running sums of product_pieces, as on_hand is.
	value numeric(15,6) not null default 0 check (value between -999999999 and 999999999),
	unvalued int not null default 0,
	stock_value numeric(15,6) not null default 0 check (stock_value between 0 and 999999999),
	stock_unvalued int not null default 0 check (stock_unvalued >= 0),
	-- The cause. The id of a deleted run stays.
	run_id uuid,
	run_item_id uuid,
	order_id uuid,
	order_item_id uuid,
	assembly_id uuid, -- the entries of one assembly have the same
	reverses uuid, -- no foreign key, so that a dump of the data can be restored in the order of the tables
	-- When the recorded event happened, if not at created_at; see move_pieces.
	happened_at timestamptz,
	-- For an entry of the kind counted: the entry that it balances, and the count at which it balances it; see
	-- balance_pieces. The entry that takes it back also has at_count. No foreign keys, as for reverses.
	balances uuid,
	at_count uuid,
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
create index piece_entries_counts on piece_entries (tenant_id, product_id, created_at)
	where kind = 'counted' and at_count is null and reverses is null;
create index piece_entries_balances on piece_entries (tenant_id, at_count) where at_count is not null;
create unique index piece_entries_reversed on piece_entries (tenant_id, reverses) where reverses is not null;
