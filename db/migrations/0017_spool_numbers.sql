-- The number of a spool: 1, 2, 3, ... within its tenant, never used again. Existing spools get theirs in the order of
-- their creation.

-- The last number that an import has reserved; see reserve_spool_numbers.
create table spool_numbers (
	tenant_id uuid not null default nullif(current_setting('app.tenant_id', true), '')::uuid,
	reserved int not null check (reserved > 0),
	primary key (tenant_id)
);
alter table spool_numbers enable row level security, force row level security;
create policy tenant on spool_numbers
	using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))
	with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));
grant select, insert, update on spool_numbers to spoolwright_app;

alter table spools add column number int check (number > 0);
alter table spools no force row level security; -- it binds the owner of the table too
update spools s set number = n.number
from (
	select tenant_id, id, row_number() over (partition by tenant_id order by created_at, id) as number from spools
) n
where s.tenant_id = n.tenant_id and s.id = n.id;
alter table spools force row level security;
alter table spools alter column number set not null;
create unique index spools_number on spools (tenant_id, number);

-- The same as in the definition inventory/number, which is installed later: programs of earlier releases insert spools
-- without a number.
create or replace function next_spool_number() returns int language plpgsql as $$
declare
	tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
	n int;
begin
	if tenant is null then
		raise exception 'the transaction is not bound to a tenant';
	end if;
	perform pg_advisory_xact_lock_shared(hashtextextended('spool numbers ' || tenant, 0));
	n := greatest(
		(select s.number from spools s where s.tenant_id = tenant order by s.number desc limit 1),
		(select r.reserved from spool_numbers r where r.tenant_id = tenant), 0);
	loop
		n := n + 1;
		if pg_try_advisory_xact_lock(hashtextextended('spool number ' || n || ' ' || tenant, 0)) then
			exit when n is distinct from (
				select s.number from spools s where s.tenant_id = tenant and s.number >= n order by s.number limit 1);
		end if;
	end loop;
	return n;
end $$;
alter table spools alter column number set default next_spool_number();
