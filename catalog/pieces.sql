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

-- Returns the first count of a product after a moment, ignoring counts that were reversed. Returns no row if there is
-- no such count or if moment is null.
create or replace function count_after(product uuid, moment timestamptz) returns setof piece_entries
language sql stable rows 1 as $$
	select e.* from piece_entries e
	where e.product_id = product and e.kind = 'counted' and e.at_count is null
		and e.reverses is null and e.created_at > moment
		and not exists (select from piece_entries r where r.reverses = e.id)
	order by e.created_at limit 1
$$;

-- Balances the change p_balances, which happened before the count counted but was recorded after it. Adds entries of
-- kind counted that bring p_pieces into stock, or take them out if the number is negative, so that the change leaves
-- the stock as the count and later changes made it. The entries first undo the difference that the count and its
-- earlier balances found, with its value. Any further pieces are treated like pieces that a count finds or misses. The
-- change itself then takes p_valued pieces with the cost p_cost out of stock.
create or replace function balance_pieces(counted piece_entries, p_balances uuid, p_pieces bigint,
	p_valued bigint default 0, p_cost numeric default 0) returns void language plpgsql as $$
declare
	found record;
	back bigint; -- the pieces of found that are undone
	unknown bigint; -- the pieces of found without a known cost; they are undone first
	entry piece_entries;
begin
	entry.product_id := counted.product_id;
	entry.kind := 'counted';
	entry.happened_at := counted.created_at;
	entry.at_count := counted.id;
	entry.balances := p_balances;
	select sum(e.pieces) as pieces, sum(e.unvalued) as unvalued, sum(e.value) as value into found
	from piece_entries e where e.id = counted.id or e.at_count = counted.id;
	back := case when sign(found.pieces) = -sign(p_pieces) then least(abs(found.pieces), abs(p_pieces)) else 0 end;
	if back > 0 then
		unknown := greatest(0, least(abs(found.pieces), found.unvalued * sign(found.pieces)));
		entry.pieces := back * sign(p_pieces)::int;
		entry.unvalued := least(unknown, back) * sign(p_pieces)::int;
		entry.cost := round(-found.value * (back - least(unknown, back)) / nullif(abs(found.pieces) - unknown, 0), 6);
		perform move_pieces(entry);
	end if;
	entry.pieces := p_pieces - back * sign(p_pieces)::int;
	if entry.pieces <> 0 then
		entry.unvalued := null;
		entry.cost := case when entry.pieces > 0 then (
			select round((s.value - p_cost) * entry.pieces / (greatest(s.on_hand, 0) - s.unvalued - p_valued), 6)
			from product_pieces s
			where s.product_id = counted.product_id and greatest(s.on_hand, 0) - s.unvalued > p_valued
				and s.value >= p_cost) end;
		perform move_pieces(entry);
	end if;
end $$;

-- Adds the entry wanted to the ledger of a product's pieces, changes the product's stock, and returns the entry. No
-- other code changes the stock.
--
-- Callers set product_id, kind and pieces. They may set id, cost, unvalued, shortfall, reason, happened_at, at_count,
-- balances, and the cause: run_id, run_item_id, order_id, order_item_id, assembly_id and reverses. Other fields have
-- no effect.
--
-- happened_at is the time of the change, if it is not now. If the product was counted after it, the count already
-- includes the change, and the stock stays as it is: balance_pieces balances the change at the first such count. An
-- entry that balances another one has balances, the balanced entry, and at_count, the count.
--
-- Positive pieces come into stock; negative ones leave it. Pieces taken out beyond those in stock are the entry's
-- shortfall. There is no shortfall, and the stock can become negative, for entries of kind used, for pieces scrapped
-- right after an order returned them, and for changes that a count includes. A negative wanted.shortfall is the number
-- of pieces of an earlier shortfall that come back: they were not in stock, and do not come into stock.
--
-- wanted.unvalued is the number of the pieces without a known cost, negative if they leave; wanted.cost is the cost of
-- the others, and also negative if they leave. Without wanted.cost, no piece that comes has a known cost. If the stock
-- is negative, pieces without a known cost fill the gap first. If only a part of the pieces that wanted.cost covers
-- comes in, p_of is the number of all of them.
--
-- Without wanted.cost, pieces that leave have the cost that they have in stock: pieces without a known cost go first,
-- and then the others at their average cost. p_valued of them have a known cost, as far as the stock has such pieces.
--
-- An entry without pieces and with p_left changes the cost of p_of pieces: the value changes for those that may still
-- be in stock, at most p_left.
--
-- The value of the entry is the change of the value of the stock. It differs from the cost if the stock does not have
-- the pieces, or has them at another cost: the value of the stock is never negative, and an empty stock has no value.
create or replace function move_pieces(wanted piece_entries, p_valued bigint default 0, p_of bigint default 0,
	p_left bigint default null) returns piece_entries language plpgsql as $$
declare
	stock product_pieces;
	entry piece_entries;
	known bigint; -- the wanted pieces that wanted.cost covers, negative if they leave
	had bigint; -- the pieces in stock before
	valued bigint; -- the pieces of had with a known cost
	gone bigint; -- the pieces that leave the stock
	unknown bigint; -- the pieces without a known cost among those that leave or come
	more bigint; -- the pieces that the entry adds to the stock
	after bigint;
	counted piece_entries; -- the count that includes the change
begin
	perform lock_pieces(array[wanted.product_id]);
	if wanted.balances is null then
		select * into counted from count_after(wanted.product_id, wanted.happened_at);
	end if;
	wanted.id := coalesce(wanted.id, uuid_v7());
	known := case when wanted.cost is null then 0 else wanted.pieces - coalesce(wanted.unvalued, 0) end;
	if counted.id is not null and wanted.pieces < 0 then -- first, so that the pieces are there
		perform balance_pieces(counted, wanted.id, -wanted.pieces, -known, coalesce(-wanted.cost, 0));
	end if;
	select * into stock from product_pieces p where p.product_id = wanted.product_id;
	had := greatest(stock.on_hand, 0);
	valued := had - stock.unvalued;
	entry := wanted;
	entry.value := stock.value;
	entry.unvalued := stock.unvalued;
	entry.shortfall := coalesce(wanted.shortfall, 0);
	if wanted.unvalued <> 0 then
		entry.cost := null;
	end if;
	if wanted.pieces < 0 then
		gone := least(-wanted.pieces, had);
		if wanted.kind <> 'used' and (wanted.kind <> 'scrapped' or wanted.order_item_id is null) and counted.id is null
				and wanted.at_count is null then
			entry.pieces := -gone;
			entry.shortfall := entry.shortfall - wanted.pieces - gone;
		end if;
		unknown := least(stock.unvalued, gone, greatest(gone - valued, 0, case
			when wanted.cost is null then gone - p_valued else coalesce(-wanted.unvalued, 0) end));
		if wanted.cost is null and coalesce(wanted.unvalued, 0) = 0 and unknown = 0 and gone = -entry.pieces then
			entry.cost := -coalesce(round(stock.value * gone / nullif(valued, 0), 6), 0);
		end if;
		stock.value := greatest(stock.value - case
			when gone - unknown = valued then stock.value -- exactly
			when wanted.cost is null then coalesce(round(stock.value * (gone - unknown) / nullif(valued, 0), 6), 0)
			else coalesce(round(wanted.cost * (gone - unknown) / nullif(known, 0), 6), 0) end, 0);
		stock.unvalued := stock.unvalued - unknown;
	elsif wanted.pieces > 0 then
		more := greatest(stock.on_hand + wanted.pieces, 0) - had;
		unknown := greatest(more - known, 0); -- these fill a negative stock first
		stock.unvalued := stock.unvalued + unknown;
		if more > unknown then
			stock.value := greatest(stock.value + round(wanted.cost * (more - unknown) / greatest(known, p_of), 6), 0);
		end if;
	elsif p_left is not null then
		stock.value := greatest(stock.value + round(wanted.cost * least(valued, p_left, p_of) / p_of, 6), 0);
	end if;
	after := stock.on_hand + entry.pieces;
	if abs(after) > 1000000000 or stock.value > 999999999 then
		raise exception 'too many pieces, or too large a value' using errcode = 'numeric_value_out_of_range';
	end if;
	update product_pieces p set on_hand = after, value = stock.value, unvalued = stock.unvalued
	where p.product_id = wanted.product_id;

	insert into piece_entries (id, product_id, kind, pieces, shortfall, on_hand, cost, value, unvalued, stock_value,
		stock_unvalued, run_id, run_item_id, order_id, order_item_id, assembly_id, reverses, reason, happened_at, at_count,
		balances)
	values (entry.id, entry.product_id, entry.kind, entry.pieces, entry.shortfall, after,
		case when abs(entry.cost) <= 999999999 then entry.cost end, stock.value - entry.value,
		stock.unvalued - entry.unvalued, stock.value, stock.unvalued, entry.run_id, entry.run_item_id, entry.order_id,
		entry.order_item_id, entry.assembly_id, entry.reverses, entry.reason, entry.happened_at, entry.at_count,
		entry.balances)
	returning * into entry;
	if counted.id is not null and wanted.pieces > 0 then
		perform balance_pieces(counted, entry.id, -entry.pieces);
	end if;
	return entry;
end $$;

-- Returns the balances of changes of this transaction that a run, an order or the reversal of an entry caused: an
-- array of objects with product_id, product_name, pieces and counted_at. cause is the id of the run, the order or the
-- reversed entry.
create or replace function balanced_now(cause uuid) returns json language plpgsql stable as $$
begin
	return (
		select coalesce(json_agg(json_build_object('product_id', n.product_id, 'product_name', p.name, 'pieces', n.pieces,
			'counted_at', n.counted_at) order by p.name, p.id), '[]')
		from (
			select b.product_id, sum(b.pieces) as pieces, max(b.happened_at) as counted_at
			from piece_entries b
			join piece_entries x on x.id = b.balances
			where b.created_at >= now() and b.balances is not null and (cause in (x.run_id, x.order_id, x.reverses)
				or x.assembly_id = (select a.assembly_id from piece_entries a where a.id = cause))
			group by b.product_id having sum(b.pieces) <> 0
		) n
		join products p on p.id = n.product_id
	);
end $$;

-- Returns the change of the number of pieces in stock with a known cost that an entry made.
create or replace function valued_change(e piece_entries) returns int language sql immutable as $$
	select greatest(e.on_hand, 0) - greatest(e.on_hand - e.pieces, 0) - e.unvalued
$$;

-- Returns value as the cost of an entry for move_pieces, or null if all pieces are unvalued.
create or replace function value_of(pieces bigint, unvalued bigint, value numeric) returns numeric
language sql immutable as $$
	select case when pieces = 0 or unvalued <> pieces then value end
$$;

-- Reverses an entry of the ledger by an entry with the opposite pieces and the opposite value. The product must be
-- locked.
create or replace function reverse_pieces(first piece_entries, p_reason text) returns void language plpgsql as $$
declare
	entry piece_entries := first;
begin
	entry.id := null;
	entry.pieces := -first.pieces;
	entry.shortfall := -first.shortfall;
	entry.cost := value_of(first.pieces, first.unvalued, -first.value);
	entry.unvalued := -first.unvalued;
	entry.reverses := first.id;
	entry.balances := null;
	entry.reason := p_reason;
	entry.happened_at := coalesce(first.happened_at, first.created_at);
	perform move_pieces(entry);
end $$;

-- Returns the cost of pieces at the average cost of the pieces in stock, or null if no piece in stock has a known
-- cost. The product must be locked.
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

-- Returns the number of pieces of a product that can be assembled from its plates in stock. The result is 0 for a
-- product without plates, and for a product that also contains other products or needs filament of its own: a person
-- must assemble that one.
create or replace function plate_sets(product uuid) returns bigint language sql stable as $$
	select coalesce(min(greatest(coalesce(s.on_hand, 0), 0) / c.quantity) filter (where is_plated(product)), 0)
	from product_components c
	left join product_pieces s on s.product_id = c.component_product_id
	where c.product_id = product
$$;

-- Assembles pieces of a product from its plates until p_wanted pieces are in stock, as far as the plates are enough;
-- see plate_sets. The pieces of the product and of its plates must be locked.
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

-- Returns a description of the pieces that are missing if pieces[n] of each product products[n] are taken out of
-- stock, or null if none are missing. The products must be locked. If plates is true, pieces that can be assembled
-- from plates in stock are not missing; see plate_sets.
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

-- Adds an entry that a person made: p_pieces, or the difference that makes the stock p_counted pieces. Pieces that
-- come into stock have the average cost. If p_pieces takes out more pieces than are in stock, nothing changes, and the
-- result describes the missing pieces; otherwise it is null.
create or replace function change_pieces(p_id uuid, p_product uuid, p_kind text, p_pieces bigint, p_counted bigint,
	p_reason text) returns text
language plpgsql as $$
declare
	n bigint;
	missing text;
	entry piece_entries;
begin
	perform lock_pieces(array[p_product]);
	select coalesce(p_pieces, p_counted - p.on_hand) into n from product_pieces p where p.product_id = p_product;
	if p_counted is null then
		missing := missing_pieces(array[p_product], array[-n]);
	end if;
	if missing is null then
		entry.id := p_id;
		entry.product_id := p_product;
		entry.kind := p_kind;
		entry.pieces := n;
		entry.cost := case when n > 0 then average_cost(p_product, n) end;
		entry.reason := p_reason;
		perform move_pieces(entry);
	end if;
	return missing;
end $$;

-- Returns the parts of p_pieces pieces of a product in stock. The newest pieces count. The parts of assembled pieces
-- are those used for their assembly, even if the product has other components now; the parts of other pieces are the
-- present components.
create or replace function parts_in_stock(p_product uuid, p_pieces bigint) returns table (id uuid, pieces bigint)
language plpgsql stable as $$
declare
	entry piece_entries;
	gone bigint := 0; -- the pieces that left the stock after the entry, less those that came back
	rest bigint := p_pieces;
	others bigint := 0; -- the pieces that were not assembled
	n bigint;
	made boolean;
	assemblies uuid[] := '{}';
	counts bigint[] := '{}';
begin
	for entry in
		select e.* from piece_entries e where e.product_id = p_product order by e.created_at desc, e.id desc
	loop
		exit when rest = 0;
		-- True if the entry assembled or disassembled the product itself, rather than used it as a part.
		made := entry.assembly_id is not null
			and (entry.pieces > 0) = ((entry.kind = 'assembled') = (entry.reverses is null));
		if entry.pieces > 0 and (made or entry.run_id is not null) then
			n := least(greatest(entry.pieces - greatest(gone, 0), 0), rest);
			rest := rest - n;
			gone := least(gone, greatest(gone - entry.pieces, 0));
			if made then
				assemblies := assemblies || entry.assembly_id;
				counts := counts || n;
			else
				others := others + n;
			end if;
		elsif made then -- disassembled pieces come back only by a reversal
			gone := greatest(gone, 0) - entry.pieces;
		else
			gone := gone - entry.pieces;
		end if;
	end loop;
	return query
		select n.id, sum(n.pieces)::bigint
		from (
			select e.product_id as id, round(u.n * abs(e.pieces / k.pieces::numeric)) as pieces
			from unnest(assemblies, counts) u (id, n)
			join piece_entries k on k.assembly_id = u.id and k.product_id = p_product and k.reverses is null
			join piece_entries e on e.assembly_id = u.id and e.product_id <> p_product and e.reverses is null
			union all
			select c.component_product_id, c.quantity * (others + rest)
			from product_components c where c.product_id = p_product
		) n
		where n.pieces > 0
		group by n.id;
end $$;

-- Assembles p_pieces pieces of a product from its direct components or, with p_apart, disassembles pieces into the
-- parts that parts_in_stock returns. The pieces of the product and of these parts must be locked, and outgoing pieces
-- must be in stock. All entries have the assembly p_assembly.
--
-- The cost of assembled pieces is the cost of their parts and of the work, if the cost of all parts is known. The cost
-- of disassembled pieces is divided among their parts in proportion to the average cost of the parts in stock, or else
-- to the cost by their bills of materials. Parts of pieces without a known cost have no known cost.
create or replace function assemble_pieces(p_assembly uuid, p_product uuid, p_pieces bigint, p_apart boolean,
	p_reason text, p_order uuid, p_order_item uuid) returns void language plpgsql as $$
declare
	part record;
	entry piece_entries;
	moved piece_entries; -- an entry that took pieces out of stock
	cost numeric;
	spread numeric := 0; -- the cost given to the parts so far
	ids uuid[];
	counts bigint[];
begin
	if p_apart then
		select array_agg(n.id), array_agg(n.pieces) into ids, counts from parts_in_stock(p_product, p_pieces) n;
	else
		select array_agg(c.component_product_id), array_agg(c.quantity * p_pieces) into ids, counts
		from product_components c where c.product_id = p_product;
	end if;
	select case when coalesce(p.labour_minutes, 0) = 0 then 0
		else round(p.labour_minutes * p_pieces * t.labour_hour_cost / 60, 6) end
	into cost
	from products p
	join tenants t on t.tenant_id = p.tenant_id
	where p.id = p_product;
	entry.kind := case when p_apart then 'disassembled' else 'assembled' end;
	entry.assembly_id := p_assembly;
	entry.order_id := p_order;
	entry.order_item_id := p_order_item;
	entry.reason := p_reason;
	if p_apart then
		entry.product_id := p_product;
		entry.pieces := -p_pieces;
		moved := move_pieces(entry);
		cost := -moved.value;
	end if;
	for part in
		select n.id, n.pieces, n.unvalued, coalesce(sum(n.weight) over (order by n.id) / nullif(sum(n.weight) over (), 0),
			sum(n.pieces) over (order by n.id) / sum(n.pieces) over ()) as until
		from (
			select u.id, u.pieces, case when p_apart then u.pieces * -moved.unvalued / p_pieces else 0 end as unvalued,
				coalesce(average_cost(u.id, 1), p.total_cost) * u.pieces as weight
			from unnest(ids, counts) u (id, pieces) join products p on p.id = u.id
		) n
		order by n.id
	loop
		entry.product_id := part.id;
		if p_apart then
			entry.pieces := part.pieces;
			entry.unvalued := part.unvalued;
			entry.cost := round(cost * part.until, 6) - spread;
			spread := spread + entry.cost;
			perform move_pieces(entry);
		else
			entry.pieces := -part.pieces;
			moved := move_pieces(entry);
			cost := cost - moved.cost;
		end if;
	end loop;
	if not p_apart then
		entry.product_id := p_product;
		entry.pieces := p_pieces;
		entry.cost := cost;
		perform move_pieces(entry);
	end if;
end $$;

-- Assembles or disassembles pieces of a product for a person: all or none of them. parts is the number of different
-- parts. missing describes the missing pieces, or is null.
create or replace function change_assembly(p_assembly uuid, p_product uuid, p_pieces bigint, p_apart boolean,
	p_reason text, out parts bigint, out missing text) language plpgsql as $$
begin
	perform lock_pieces(with_plates(array(
		select p_product union select c.component_product_id from product_components c where c.product_id = p_product
		union select n.id from parts_in_stock(p_product, p_pieces) n where p_apart)));
	if p_apart then
		select count(*) into parts from parts_in_stock(p_product, p_pieces);
	else
		select count(*) into parts from product_components c where c.product_id = p_product;
	end if;
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

-- Sets low_since, the time since which a product has too few pieces, to now for the products in low, and to null for
-- those in fine. Returns the ids in low.
create or replace function note_low_pieces(low uuid[], fine uuid[]) returns setof uuid language sql as $$
	insert into product_pieces (product_id, low_since)
	select u.id, now() from unnest(low) u (id)
	union all
	select u.id, null from unnest(fine) u (id)
	order by 1
	on conflict (tenant_id, product_id) do update set low_since = excluded.low_since;
	select u.id from unnest(low) u (id)
$$;
