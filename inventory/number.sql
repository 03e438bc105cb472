-- Returns the next number of a spool in the transaction's tenant: 1, 2, 3, ... It is the default of spools.number,
-- and is evaluated for each inserted row.
--
-- A counter row would stay locked until commit, so that creates of a tenant would wait for each other. Instead, the
-- function takes an advisory lock on a number: the first number after the last committed one that no other
-- transaction has locked. It never waits for such a lock. The lock lasts until commit or rollback. After a rollback,
-- the next spool gets the number, unless a higher number was committed meanwhile; then the number remains unused.
--
-- A transaction may insert about a hundred spools this way, because locks occupy shared memory. Imports reserve
-- their numbers with reserve_spool_numbers. The unique index spools_number rejects a number that two transactions
-- got.
create or replace function next_spool_number() returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	base bigint := hashtextextended('spool number ' || tenant, 0);
	n int;
begin
	if tenant is null then
		raise exception 'the transaction is not bound to a tenant';
	end if;
	-- Waits only while reserve_spool_numbers commits a reservation; the next statement then reads that reservation.
	-- It is an expression, because PERFORM would run a query.
	if pg_advisory_xact_lock_shared(hashtextextended('spool numbers ' || tenant, 0)) is null then
		return null;
	end if;
	n := greatest(
		(select s.number from spools s where s.tenant_id = tenant and s.number is not null
			order by s.number desc limit 1),
		(select r.reserved from spool_numbers r where r.tenant_id = tenant), 0);
	loop
		n := n + 1;
		if pg_try_advisory_xact_lock(base # n) then
			-- Another transaction may have committed n, and so unlocked it, after the statement above read the
			-- table.
			exit when n is distinct from (
				select s.number from spools s where s.tenant_id = tenant and s.number >= n
				order by s.number limit 1);
		end if;
	end loop;
	return n;
end $$;
alter table spools alter number set default next_spool_number();

-- Returns the highest number that a spool has used or that was reserved.
create or replace function last_spool_number() returns int language sql as $$
	select greatest(
		(select s.number from spools s where s.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid
			and s.number is not null order by s.number desc limit 1),
		(select r.reserved from spool_numbers r
			where r.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid), 0)
$$;

-- Reserves count consecutive numbers of spools and returns the first number. next_spool_number does not return
-- reserved numbers. The transaction must be short: it waits for the running creates of the tenant, and new creates
-- wait for it.
create or replace function reserve_spool_numbers(count int) returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	n int;
begin
	perform pg_advisory_xact_lock(hashtextextended('spool numbers ' || tenant, 0));
	n := 1 + last_spool_number();
	insert into spool_numbers (tenant_id, reserved) values (tenant, n + count - 1)
	on conflict (tenant_id) do update set reserved = excluded.reserved;
	return n;
end $$;

-- Reserves numbers of spools for a list of wanted numbers. A wanted number that is higher than every used or
-- reserved number is kept. For each other wanted number, the function reserves a number after all of these. It
-- returns the highest number that was used or reserved before. It waits, and makes creates wait, like
-- reserve_spool_numbers.
create or replace function reserve_wanted_numbers(wanted int[]) returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	l int;
begin
	perform pg_advisory_xact_lock(hashtextextended('spool numbers ' || tenant, 0));
	l := last_spool_number();
	insert into spool_numbers (tenant_id, reserved)
	select tenant, greatest(l, max(w.n)) + count(*) - count(distinct w.n) filter (where w.n > l)
	from unnest(wanted) w (n)
	on conflict (tenant_id) do update set reserved = excluded.reserved;
	return l;
end $$;

-- Returns the next number of a resource other than spools in the transaction's tenant: 1, 2, 3, ... Numbers are
-- never reused, not even after the row was deleted. The counter stays locked until commit, so that transactions of a
-- tenant that create such a resource run one after the other.
create or replace function next_number(resource text) returns int language sql as $$
	insert into last_numbers (resource, last) values (next_number.resource, 1)
	on conflict (tenant_id, resource) do update set last = last_numbers.last + 1
	returning last
$$;
alter table vendors alter number set default next_number('vendors');
alter table filaments alter number set default next_number('filaments');
