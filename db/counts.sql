-- A row of the table counters has the last number and the total of the list of a kind, which is the name of a table,
-- of a tenant. The statement that creates, hides, restores or deletes rows changes the counter, and locks it until the
-- transaction ends: other transactions of the tenant with the kind wait. Therefore a transaction changes counters
-- last, after it has locked its rows, and in the order vendors, filaments, spools, printers, products, orders,
-- production_runs. Kinds with numbers are the exception: a row needs its number when it is created, and rows of later
-- kinds in this order may be locked after that. Long transactions take their numbers in a separate transaction, and
-- change the total once, at their end.

-- Takes n numbers of the kind, and returns the first one. Adds counted, the number of new rows that the list shows, to
-- the total. Numbers are 1, 2, 3, ... in the tenant, and are never used again, not even after the row was deleted.
create or replace function next_number(of_kind text, n int default 1, counted int default 0) returns int
language plpgsql as $$
declare
	last_taken int;
begin
	insert into counters as c (kind, last, total) values (of_kind, n, counted)
	on conflict (tenant_id, kind) do update set last = c.last + excluded.last, total = c.total + excluded.total
	returning last into last_taken;
	return last_taken - n + 1;
end $$;

-- Adds n, which may be negative, to the total of the list of the kind. Returns n.
create or replace function count_rows(of_kind text, n bigint) returns bigint language plpgsql as $$
begin
	if n <> 0 then
		insert into counters as c (kind, last, total) values (of_kind, 0, n)
		on conflict (tenant_id, kind) do update set total = c.total + excluded.total;
	end if;
	return n;
end $$;
