-- Locks the pieces of products, in the order of the ids of the products. Transactions that change the pieces of
-- several products lock them first. Locks of orders and runs come before.
create or replace function lock_pieces(ids uuid[]) returns void language plpgsql as $$
declare
	product uuid;
begin
	for product in select distinct u.id from unnest(ids) u (id) where u.id is not null order by u.id loop
		loop
			perform from product_pieces p where p.product_id = product for no key update;
			exit when found;
			insert into product_pieces (product_id) values (product) on conflict do nothing;
		end loop;
	end loop;
end $$;

-- Adds an entry to the ledger of a product's pieces, and changes its stock. No other code changes the stock.
--
-- p_pieces come into stock; a negative number goes out. What goes out beyond the pieces in stock is the entry's
-- shortfall, except of kind used, which can make the stock negative, and of pieces that an order has just returned.
-- p_shortfall is a number of such pieces that come back: they were not in stock, and do not come into it.
--
-- p_cost is the cost of the pieces, or null if it is unknown. p_unvalued says how many of the pieces that come in have
-- no known cost; p_cost is then that of the others. By default it is all of them if p_cost is null, and otherwise
-- none. If the stock is negative, the missing ones are those without a known cost first. p_of is a larger number of
-- pieces that p_cost is for: only a part of them comes in.
--
-- Without p_priced, pieces that go out have the cost that they have in stock: first go those without a known cost, and
-- then the others at their average. p_valued of them have a known cost, as far as there are such pieces. With
-- p_priced, they have the cost p_cost, and p_unvalued of them have none. An entry without pieces and with p_priced is
-- a change of the cost of p_of pieces: those of them that may still be in stock, at most p_left, change their value.
--
-- The value of the entry is what the value of the stock changes by. It differs from the cost if the stock does not
-- have the pieces, or not at this cost: the stock is never worth less than nothing, and no pieces are worth nothing.
drop function if exists move_pieces(uuid, text, bigint, numeric, boolean, uuid, uuid, uuid, uuid, uuid, uuid, text,
	bigint, uuid);
drop function if exists move_pieces(uuid, text, bigint, numeric, boolean, uuid, uuid, uuid, uuid, uuid, uuid, text,
	bigint, uuid, bigint);
create or replace function move_pieces(p_product uuid, p_kind text, p_pieces bigint, p_cost numeric default null,
	p_priced boolean default false, p_run uuid default null, p_item uuid default null, p_order uuid default null,
	p_order_item uuid default null, p_assembly uuid default null, p_reverses uuid default null,
	p_reason text default null, p_shortfall bigint default 0, p_id uuid default null,
	p_of bigint default 0, p_left bigint default null, p_unvalued bigint default null, p_valued bigint default 0)
returns piece_entries language plpgsql as $$
declare
	stock product_pieces;
	entry piece_entries;
	had bigint; -- the pieces in stock before
	valued bigint; -- of them, those with a known cost
	gone bigint := 0; -- the pieces that leave the stock
	unknown bigint := 0; -- of the pieces that leave or come, those without a known cost
	more bigint; -- the pieces that are in stock because of the entry
	after bigint;
begin
	perform lock_pieces(array[p_product]);
	select * into stock from product_pieces p where p.product_id = p_product;
	had := greatest(stock.on_hand, 0);
	valued := had - stock.unvalued;
	entry.value := stock.value;
	entry.unvalued := stock.unvalued;
	entry.pieces := p_pieces;
	entry.shortfall := -p_shortfall;
	entry.cost := p_cost;
	if p_pieces < 0 then
		gone := least(-p_pieces, had);
		if p_kind <> 'used' and (p_kind <> 'scrapped' or p_order_item is null) then
			entry.pieces := -gone;
			entry.shortfall := -p_pieces - gone - p_shortfall;
		end if;
		unknown := least(stock.unvalued, gone, greatest(gone - valued, 0, case
			when p_priced and p_cost is not null then coalesce(p_unvalued, 0)
			else gone - least(p_valued, valued) end));
		if p_unvalued > 0 then
			entry.cost := null;
		elsif not p_priced then
			entry.cost := case when unknown = 0 and gone = -entry.pieces
				then -coalesce(round(stock.value * gone / nullif(valued, 0), 6), 0) end;
		end if;
		stock.value := greatest(stock.value - case
			when gone - unknown = valued then stock.value -- exactly
			when p_priced and p_cost is not null then
				coalesce(round(-p_cost * (gone - unknown) / nullif(-p_pieces - coalesce(p_unvalued, 0), 0), 6), 0)
			else coalesce(round(stock.value * (gone - unknown) / nullif(valued, 0), 6), 0) end, 0);
		stock.unvalued := stock.unvalued - unknown;
	elsif p_pieces > 0 then
		more := greatest(stock.on_hand + p_pieces, 0) - had;
		-- The pieces that were missing are those without a known cost first.
		unknown := least(more, greatest(0, more - p_pieces
			+ coalesce(p_unvalued, case when p_cost is null then p_pieces else 0 end)));
		stock.unvalued := stock.unvalued + unknown;
		if p_cost is not null and more > unknown then
			stock.value := greatest(stock.value
				+ round(p_cost * (more - unknown) / (greatest(p_pieces, p_of) - coalesce(p_unvalued, 0)), 6), 0);
		end if;
		entry.cost := case when coalesce(p_unvalued, 0) = 0 then p_cost end;
	elsif p_priced and p_cost is not null and p_of > 0 then
		stock.value := greatest(stock.value + round(p_cost * least(valued, coalesce(p_left, p_of), p_of) / p_of, 6), 0);
	end if;
	after := stock.on_hand + entry.pieces;
	if abs(after) > 1000000000 or stock.value > 999999999 then
		raise exception 'too many pieces, or too large a value' using errcode = 'numeric_value_out_of_range';
	end if;
	update product_pieces p set on_hand = after, value = stock.value, unvalued = stock.unvalued
	where p.product_id = p_product;

	insert into piece_entries (id, product_id, kind, pieces, shortfall, on_hand, cost, value, unvalued, stock_value,
		stock_unvalued, run_id, run_item_id, order_id, order_item_id, assembly_id, reverses, reason)
	values (coalesce(p_id, uuid_v7()), p_product, p_kind, entry.pieces, entry.shortfall, after,
		case when abs(entry.cost) <= 999999999 then entry.cost end, stock.value - entry.value,
		stock.unvalued - entry.unvalued, stock.value, stock.unvalued, p_run, p_item, p_order,
		p_order_item, p_assembly, p_reverses, p_reason)
	returning * into entry;
	return entry;
end $$;

-- Returns the cost of pieces of which some are unvalued, as an argument of move_pieces: null if no piece has a cost.
create or replace function value_of(pieces bigint, unvalued bigint, value numeric) returns numeric
language sql immutable as $$
	select case when pieces = 0 or unvalued <> pieces then value end
$$;

-- Takes an entry of the ledger back, by an entry with the opposite pieces and the opposite value. The product must be
-- locked.
create or replace function reverse_pieces(first piece_entries, p_reason text) returns void language sql as $$
	select move_pieces(first.product_id, first.kind, -first.pieces,
		value_of(-first.pieces, -first.unvalued, -first.value), p_priced => true, p_order => first.order_id,
		p_order_item => first.order_item_id, p_assembly => first.assembly_id, p_reverses => first.id,
		p_reason => p_reason, p_shortfall => first.shortfall, p_unvalued => abs(first.unvalued))
$$;

-- Returns the cost of pieces at the average of those in stock with a known cost, or null if there is none. The product
-- must be locked.
create or replace function average_cost(product uuid, pieces bigint) returns numeric language sql stable as $$
	select round(s.value * pieces / nullif(greatest(s.on_hand, 0) - s.unvalued, 0), 6)
	from product_pieces s where s.product_id = product
$$;

-- Returns products and their plates.
create or replace function with_plates(ids uuid[]) returns uuid[] language sql stable as $$
	select array(
		select unnest(ids)
		union
		select p.id from unnest(ids) u (id) join products p on p.plate_of = u.id and p.hidden_at is null)
$$;

-- Returns how many pieces of a product the plates in stock are enough for. That is 0 for a product without plates, and
-- for one that contains other products than its plates, or needs filament of its own: somebody puts it together.
create or replace function plate_sets(product uuid) returns bigint language sql stable as $$
	select coalesce(min(greatest(coalesce(s.on_hand, 0), 0) / c.quantity) filter (where is_plated(product)), 0)
	from product_components c
	left join product_pieces s on s.product_id = c.component_product_id
	where c.product_id = product
$$;

-- Makes a product's pieces in stock as many as p_wanted, as far as its plates in stock are enough; see plate_sets. The
-- pieces of the product and of its plates must be locked.
create or replace function assemble_plates(p_product uuid, p_wanted bigint, p_order uuid, p_order_item uuid)
returns void language plpgsql as $$
declare
	n bigint;
begin
	select least(p_wanted - greatest(s.on_hand, 0), plate_sets(p_product)) into n
	from product_pieces s where s.product_id = p_product;
	if n > 0 then
		perform assemble_pieces(uuid_v7(), p_product, n, false, null, p_order, p_order_item);
	end if;
end $$;

-- Returns in words which pieces are missing if so many pieces of the products leave the stock, or null if all are
-- there. The products must be locked. With plates, the pieces that plates in stock are enough for are there, too; see
-- plate_sets.
drop function if exists missing_pieces(uuid[], bigint[]);
create or replace function missing_pieces(products uuid[], pieces bigint[], plates boolean default false) returns text
language sql stable as $$
	select string_agg(n.there || ' of ' || p.name || ', ' || u.pieces || ' are needed', '; '
		order by p.name, p.id)
	from unnest(missing_pieces.products, missing_pieces.pieces) u (id, pieces)
	join products p on p.id = u.id
	join product_pieces s on s.product_id = u.id
	cross join lateral (
		select greatest(s.on_hand, 0) + case when plates then plate_sets(u.id) else 0 end as there
	) n
	where u.pieces > 0 and n.there < u.pieces
$$;

-- Adds an entry of a person: p_pieces, or as many that p_counted pieces are in stock then. Pieces that come into stock
-- have the average cost. If p_pieces take more than there are, nothing changes, and the result says what is missing;
-- otherwise it is null.
drop function if exists change_pieces(uuid, uuid, text, bigint, bigint, text);
create or replace function change_pieces(p_id uuid, p_product uuid, p_kind text, p_pieces bigint, p_counted bigint,
	p_reason text) returns text
language plpgsql as $$
declare
	n bigint;
	missing text;
begin
	perform lock_pieces(array[p_product]);
	select coalesce(p_pieces, p_counted - p.on_hand) into n from product_pieces p where p.product_id = p_product;
	if p_counted is null then
		missing := missing_pieces(array[p_product], array[-n]);
	end if;
	if missing is null then
		perform move_pieces(p_product, p_kind, n, case when n > 0 then average_cost(p_product, n) end,
			p_reason => p_reason, p_id => p_id);
	end if;
	return missing;
end $$;

-- Makes so many pieces of a product from its direct components, or takes pieces apart with p_apart. The pieces of the
-- product and of its components must be locked, and those that go must be in stock. All entries have the assembly.
--
-- Assembled pieces cost what their parts cost, and the work on them, if the cost of all parts is known. Parts of
-- pieces that are taken apart cost together what these pieces cost. They share it by the average cost of the parts in
-- stock, or else by what the parts cost by their bills of materials. What has an unknown cost gives its parts none.
create or replace function assemble_pieces(p_assembly uuid, p_product uuid, p_pieces bigint, p_apart boolean,
	p_reason text, p_order uuid, p_order_item uuid) returns void language plpgsql as $$
declare
	part record;
	entry piece_entries;
	cost numeric;
	spread numeric := 0; -- the part of the cost that the parts before have
	share numeric;
begin
	select case when coalesce(p.labour_minutes, 0) = 0 then 0
		else round(p.labour_minutes * p_pieces * t.labour_hour_cost / 60, 6) end
	into cost
	from products p
	join tenants t on t.tenant_id = p.tenant_id
	where p.id = p_product;
	if p_apart then
		entry := move_pieces(p_product, 'disassembled', -p_pieces, p_assembly => p_assembly, p_reason => p_reason);
		cost := -entry.value;
	end if;
	for part in
		select n.id, n.pieces, n.unvalued, coalesce(sum(n.weight) over (order by n.id) / nullif(sum(n.weight) over (), 0),
			sum(n.pieces) over (order by n.id) / sum(n.pieces) over ()) as until
		from (
			select c.component_product_id as id, c.quantity * p_pieces as pieces,
				case when p_apart then c.quantity * -entry.unvalued else 0 end as unvalued,
				coalesce(average_cost(c.component_product_id, 1), p.total_cost) * c.quantity as weight
			from product_components c join products p on p.id = c.component_product_id
			where c.product_id = p_product
		) n
		order by n.id
	loop
		if p_apart then
			share := round(cost * part.until, 6) - spread;
			spread := spread + share;
			perform move_pieces(part.id, 'disassembled', part.pieces, value_of(part.pieces, part.unvalued, share),
				p_assembly => p_assembly, p_reason => p_reason, p_unvalued => part.unvalued);
		else
			entry := move_pieces(part.id, 'assembled', -part.pieces, p_assembly => p_assembly, p_reason => p_reason,
				p_order => p_order, p_order_item => p_order_item);
			cost := cost - entry.cost;
		end if;
	end loop;
	if not p_apart then
		perform move_pieces(p_product, 'assembled', p_pieces, cost, p_assembly => p_assembly, p_reason => p_reason,
			p_order => p_order, p_order_item => p_order_item);
	end if;
end $$;

-- Assembles pieces of a product, or takes them apart, as a person says: all or nothing. The result has the number of
-- components of the product, and what is missing, in words, or null.
create or replace function change_assembly(p_assembly uuid, p_product uuid, p_pieces bigint, p_apart boolean,
	p_reason text, out parts bigint, out missing text) language plpgsql as $$
begin
	perform lock_pieces(with_plates(array(
		select p_product union select c.component_product_id from product_components c where c.product_id = p_product)));
	select count(*) into parts from product_components c where c.product_id = p_product;
	select missing_pieces(array_agg(n.id), array_agg(n.pieces), not p_apart)
	into missing
	from (
		select p_product as id, p_pieces as pieces where p_apart
		union all
		select c.component_product_id, c.quantity * p_pieces from product_components c
		where c.product_id = p_product and not p_apart
	) n;
	if parts > 0 and missing is null then
		if not p_apart then
			perform assemble_plates(c.component_product_id, c.quantity * p_pieces, null, null)
			from product_components c where c.product_id = p_product order by c.component_product_id;
		end if;
		perform assemble_pieces(p_assembly, p_product, p_pieces, p_apart, p_reason, null, null);
	end if;
end $$;

-- Notes since when products have too few pieces: those of low since now, those of fine not any more. Returns the ids
-- of low.
create or replace function note_low_pieces(low uuid[], fine uuid[]) returns setof uuid language sql as $$
	insert into product_pieces (product_id, low_since)
	select u.id, now() from unnest(low) u (id)
	union all
	select u.id, null from unnest(fine) u (id)
	order by 1
	on conflict (tenant_id, product_id) do update set low_since = excluded.low_since;
	select u.id from unnest(low) u (id)
$$;
