-- Reverses an entry of the ledger by an entry with the opposite pieces. The entries of an assembly are reversed
-- together, and so are a count and the entries that balance other changes at the count. Changes nothing and returns a
-- problem if that is not possible:
--
--   NOT_FOUND  there is no such entry
--   REVERSAL   the entry reverses another entry
--   RUN        a run has caused the entry
--   BALANCE    the entry balances another entry at a count
--   REVERSED   the entry was already reversed
--   RETURNED   the entry is a delivery, and the customer has sent pieces back
--   DELIVERED  the entry is a return, and the customer would have more pieces than were ordered
--   MISSING    pieces that would leave are not in stock; detail names them
create or replace function reverse_piece_entry(p_entry uuid, p_reason text, out problem text, out detail text)
language plpgsql as $$
declare
	first piece_entries;
	entry piece_entries;
	ids uuid[];
begin
	select * into first from piece_entries e where e.id = p_entry;
	problem := case when first.id is null then 'NOT_FOUND' when first.reverses is not null then 'REVERSAL'
		when first.run_id is not null then 'RUN' when first.balances is not null then 'BALANCE' end;
	if problem is not null then
		detail := first.run_id::text;
		return;
	end if;
	if first.order_id is not null then
		perform lock_order_pieces(first.order_id);
	end if;
	ids := array(select e.id from piece_entries e
		where e.id = p_entry or (e.assembly_id = first.assembly_id or e.at_count = p_entry) and e.reverses is null);
	perform lock_pieces(array(select e.product_id from piece_entries e where e.id = any (ids)));
	if exists (select from piece_entries e where e.reverses = any (ids)) then
		problem := 'REVERSED';
		return;
	end if;
	select missing_pieces(array_agg(n.product_id), array_agg(n.pieces)) into detail
	from (
		select e.product_id, sum(e.pieces)::bigint as pieces
		from piece_entries e
		where e.id = any (ids)
			and not exists (select from count_after(e.product_id, coalesce(e.happened_at, e.created_at)))
		group by e.product_id
	) n;
	if detail is not null then
		problem := 'MISSING';
		return;
	end if;
	if first.kind in ('delivered', 'returned')
			and not take_back_delivered(first.order_item_id, first.shortfall - first.pieces) then
		problem := case first.kind when 'returned' then 'DELIVERED' else 'RETURNED' end;
		return;
	end if;
	for entry in select * from piece_entries e where e.id = any (ids) order by e.product_id, e.pieces loop
		perform reverse_pieces(entry, p_reason);
	end loop;
end $$;
