package archive

// BrokenRule is a query for the first row of a tenant that contradicts the ledgers: a text about it, which is empty if
// there is none. No request makes such rows, but a person can write them into a file.
const BrokenRule = `
	select coalesce((select r.text from (
		(select 1 as rule, format('the spool %s has %s g, and its usage ledger adds up to %s g', s.number,
			trim_scale(s.remaining_weight_grams), trim_scale(coalesce(u.grams, 0))) as text
		from spools s
		left join (
			select spool_id, sum(after_grams - before_grams) as grams from spool_usage group by spool_id
		) u on u.spool_id = s.id
		where s.remaining_weight_grams <> coalesce(u.grams, 0)
		order by s.number limit 1)
	union all
		(select 2, format('the run %s has used %s g of the spool %s, and the usage ledger %s g', r.id,
			trim_scale(coalesce(m.grams, 0)), s.number, trim_scale(coalesce(u.grams, 0)))
		from (
			select run_id, spool_id, sum(coalesce(shortfall_grams, 0) - (after_grams - before_grams)) as grams
			from spool_usage where run_id is not null group by run_id, spool_id
		) u
		full join (
			select m.run_id, m.spool_id, sum(coalesce(m.actual_weight_grams, 0)) as grams,
				bool_or(m.actual_weight_grams = 1000000) as capped -- the maximum, which wrong reports can exceed
			from run_materials m
			group by m.run_id, m.spool_id
		) m on m.run_id = u.run_id and m.spool_id = u.spool_id
		join production_runs r on r.id = coalesce(m.run_id, u.run_id) and r.deducted_at is not null
		join spools s on s.id = coalesce(m.spool_id, u.spool_id)
		where coalesce(m.grams, 0) <> coalesce(u.grams, 0) and not (coalesce(m.capped, false) and u.grams > m.grams)
		order by 2 limit 1)
	union all
		(select 3, format('the product %s has %s pieces in stock, %s of them without a cost, with the value %s, and its ' ||
			'ledger adds up to %s, %s and %s', p.number, coalesce(s.on_hand, 0), coalesce(s.unvalued, 0),
			trim_scale(coalesce(s.value, 0)), coalesce(e.pieces, 0), coalesce(e.unvalued, 0),
			trim_scale(coalesce(e.value, 0)))
		from products p
		left join product_pieces s on s.product_id = p.id
		left join (
			select product_id, sum(pieces) as pieces, sum(unvalued) as unvalued, sum(value) as value from piece_entries
			group by product_id
		) e on e.product_id = p.id
		where coalesce(s.on_hand, 0) <> coalesce(e.pieces, 0) or coalesce(s.unvalued, 0) <> coalesce(e.unvalued, 0)
			or coalesce(s.value, 0) <> coalesce(e.value, 0)
		order by p.number limit 1)
	union all
		(select 4, format('the item %s of a run has printed %s pieces, and the ledger of pieces has %s',
			coalesce(g.id, e.id), coalesce(g.good, 0), coalesce(e.pieces, 0))
		from (
			select i.id, i.product_id, n.good from run_items i
			join production_runs r on r.id = i.run_id
			cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
		) g
		full join (
			select run_item_id as id, product_id, sum(pieces - shortfall) as pieces from piece_entries
			where run_id is not null and kind in ('produced', 'corrected') group by run_item_id, product_id
		) e on e.id = g.id and e.product_id = g.product_id
		where coalesce(g.good, 0) <> coalesce(e.pieces, 0)
		order by 2 limit 1)
	union all
		(select 5, format('the item %s of an order has %s delivered pieces, and the ledger of pieces has %s',
			i.id, coalesce(i.delivered, 0), coalesce(e.pieces, 0))
		from order_items i
		full join (
			select order_item_id as id, sum(shortfall - pieces) as pieces from piece_entries
			where kind in ('delivered', 'returned') group by order_item_id
		) e on e.id = i.id
		where coalesce(i.delivered, 0) <> coalesce(e.pieces, 0)
		order by 2 limit 1)
	union all
		(select 6, format('the order %s has the unassigned_count %s, and %s such lines', o.id, o.unassigned_count,
			coalesce(l.lines, 0))
		from orders o
		left join (
			select order_id, count(*) as lines from order_lines
			where item_id is null and not ignored and quantity > 0 group by order_id
		) l on l.order_id = o.id
		where o.unassigned_count <> coalesce(l.lines, 0)
		order by 2 limit 1)
	union all
		(select 7, case when coalesce(c.last, 0) < n.last
			then format('the last number of %s is %s, and one has the number %s', n.kind, coalesce(c.last, 0), n.last)
			else format('the number of %s is %s, and there are %s', n.kind, coalesce(c.total, 0), n.total) end
		from (
			select 'vendors' as kind, coalesce(max(number), 0) as last, count(*) filter (where hidden_at is null) as total
			from vendors
			union all
			select 'filaments', coalesce(max(number), 0), count(*) filter (where hidden_at is null) from filaments
			union all
			select 'spools', coalesce(max(number), 0), count(*) filter (where hidden_at is null and not archived)
			from spools
			union all
			select 'printers', coalesce(max(number), 0), count(*) filter (where hidden_at is null) from printers
			union all
			select 'products', coalesce(max(number), 0), count(*) filter (where hidden_at is null and plate_of is null)
			from products
			union all
			select 'orders', 0, count(*) filter (where hidden_at is null) from orders
			union all
			select 'production_runs', 0, count(*) filter (where hidden_at is null) from production_runs
		) n
		left join counters c on c.kind = n.kind
		where coalesce(c.last, 0) < n.last or coalesce(c.total, 0) <> n.total
		order by 2 limit 1)
	union all
		(select 8, format('the filament of the run %s costs %s, and its materials %s', r.id,
			trim_scale(r.filament_cost + r.waste_cost), trim_scale(m.cost))
		from production_runs r
		join (
			select run_id, sum(rounded_quotient(actual_weight_grams * cost_per_gram, 1)) as cost
			from run_materials where actual_weight_grams > 0 group by run_id
			having bool_and(cost_per_gram is not null)
		) m on m.run_id = r.id
		where r.deducted_at is not null and r.filament_cost + r.waste_cost <> m.cost
		order by 2 limit 1)
	) r order by r.rule limit 1), '')`
